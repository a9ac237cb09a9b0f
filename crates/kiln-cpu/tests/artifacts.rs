//! Programs as bytes. That what is loaded computes the same, all other tests show: they run what
//! was loaded. Here: reports name today's places, and wrong bytes are refused.

mod device;

use kiln_backend::{Backend, BufferBinding, Error, LaunchArguments, Places, StreamId};
use kiln_cpu::CpuBackend;
use kiln_ir::Kernel;

/// Asserts in line 10 of a file, and adds in line 12.
fn kernel(lines: [u32; 2]) -> Kernel {
    let [assert, add] = lines;
    let text = format!(
        "file \"k.rs\"
kernel @k(%y: mut view<i32, 1, global>) tile {{
  %zero = const 0 : i64 @0:{assert}:1
  %pid = program_id x : i64 @0:{assert}:1
  %fine = eq %pid, %zero : bool @0:{assert}:1
  assert %fine, \"program {{}}\", %pid @0:{assert}:5
  %one = const 1 : i32 @0:{add}:1
  scatter.mask %y[%zero] = %one @0:{add}:1
}}
"
    );
    kiln_ir::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Where program 1 faults.
fn fault(cpu: &CpuBackend, artifact: &[u8], places: &Places) -> String {
    let program = (cpu as &dyn Backend).need_artifacts().unwrap().load_packaged(artifact, places).unwrap();
    let stream = StreamId(0);
    let memory = cpu.allocate(4, stream).unwrap();
    let arguments = LaunchArguments::new().view(BufferBinding::write(memory), &[1]);
    // SAFETY: the view is an allocation of its size.
    unsafe { cpu.launch(&*program, arguments.launch([2, 1, 1], stream)).unwrap() };
    let Err(Error::Fault(fault)) = cpu.synchronize(stream) else { panic!("it does not fault") };
    // SAFETY: allocated above, and not used again.
    unsafe { cpu.free(memory, 4, stream) };
    fault.location
}

#[test]
fn faults_name_the_places_of_today() {
    let cpu = CpuBackend::with_threads(1);
    let then = kernel([10, 12]);
    let artifact = cpu.compile(&then).unwrap().artifact.unwrap();
    assert_eq!(fault(&cpu, &artifact, &Places::default()), "k.rs:10:5");
    let recorded = Places::record(&then);
    let places = Places::since(&recorded, &kernel([31, 77])).unwrap();
    assert!(!places.are_same());
    assert_eq!(fault(&cpu, &artifact, &places), "k.rs:31:5");
    // Two lines may have become one.
    assert!(Places::since(&recorded, &kernel([10, 10])).is_ok());
    // One that has become two leaves a report without a place.
    let joined = Places::record(&kernel([10, 10]));
    assert!(Places::since(&joined, &kernel([10, 12])).is_err());
    // Those of another kernel, and any other bytes, are refused.
    let mut state = 1u64;
    for length in 0..recorded.len() {
        assert!(Places::since(&recorded[..length], &then).is_err());
        let mut bytes = recorded.clone();
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes[length] ^= (state >> 33) as u8;
        let _ = Places::since(&bytes, &then);
    }
}

#[test]
fn damaged_programs_are_refused() {
    let cpu = CpuBackend::with_threads(1);
    let artifacts = (&cpu as &dyn Backend).need_artifacts().unwrap();
    let whole = cpu.compile(&kernel([1, 2])).unwrap().artifact.unwrap();
    assert!(artifacts.load(&whole).is_ok());
    let refused = |bytes: &[u8]| match artifacts.load(bytes).map(drop) {
        Err(Error::Driver { code, .. }) => assert_eq!(code, "damaged bytes"),
        other => panic!("{other:?}"),
    };
    for length in 0..whole.len() {
        refused(&whole[..length]);
        for bit in [0, 5] {
            let mut bytes = whole.clone();
            bytes[length] ^= 1 << bit;
            refused(&bytes);
        }
    }
}

#[test]
fn keys_tell_how_tiles_pass_through_the_caches() {
    let key = |cpu: CpuBackend| cpu.artifacts().unwrap().artifact_key();
    let plain = key(CpuBackend::with_threads(1));
    assert_eq!(plain, key(CpuBackend::with_threads(7)));
    assert_ne!(plain, key(CpuBackend::with_threads(1).with_blocking(4, 0)));
}
