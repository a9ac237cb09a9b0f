//! What naga's writers make of modules: WGSL and MSL as snapshots, and SPIR-V and HLSL, which they
//! must accept. Needs no adapter.

use kiln_backend::Error;
use kiln_wgpu::{Features, Module, compile};
use naga::back;

const KERNELS: &[(&str, &str)] = &[
    ("add", include_str!("kernels/add.kir")),
    ("softmax", include_str!("kernels/softmax.kir")),
    ("transpose", include_str!("kernels/transpose.kir")),
    ("collatz", include_str!("kernels/collatz.kir")),
    ("ranges", include_str!("kernels/ranges.kir")),
    ("atomics", include_str!("kernels/atomics.kir")),
    ("packed", include_str!("kernels/packed.kir")),
    ("vectors", include_str!("kernels/vectors.kir")),
    ("scratch", include_str!("kernels/scratch.kir")),
    ("checks", include_str!("kernels/checks.kir")),
];

/// What Apple's GPUs have: no 64-bit floats.
const FEATURES: Features = Features {
    int64: true,
    float64: false,
    float16: true,
    float_modes: None,
    exact_floats: true,
    exact_multiply_adds: true,
    exact_doubles: true,
    exact_quotients: true,
    exact_roots: true,
    exact_powers: true,
    contracts: false,
    contracts_halves: false,
    loses_nan: false,
    loses_signs: false,
    exact_extrema: false,
    asks_for_proof: false,
    subgroup: Some(32),
    subgroup_barriers: true,
    loop_rounds: None,
    matrices: None,
    warp: 32,
    immediate_bytes: 0,
};

fn module(text: &str, features: Features) -> Result<Module, Error> {
    let kernel = kiln_ir::parse(text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(kiln_ir::verify(&kernel), Ok(()));
    compile(&kernel, features)
}

fn wgsl(module: &Module) -> String {
    let flags = back::wgsl::WriterFlags::empty();
    back::wgsl::write_string(&module.naga, &module.info, flags).unwrap_or_else(|e| panic!("{e}"))
}

fn metal(module: &Module) -> String {
    let options =
        back::msl::Options { lang_version: (2, 4), fake_missing_bindings: true, ..Default::default() };
    let written = back::msl::write_string(&module.naga, &module.info, &options, &Default::default());
    written.unwrap_or_else(|e| panic!("{e}")).0
}

/// `KILN_BLESS=1` writes the snapshots again.
#[test]
fn wgsl_and_msl_are_as_recorded() {
    let bless = std::env::var_os("KILN_BLESS").is_some();
    for (name, text) in KERNELS {
        for (kind, subgroup) in [("", None), (".subgroups", Some(32))] {
            // Only softmax has lanes that exchange values.
            if subgroup.is_some() && *name != "softmax" {
                continue;
            }
            let module =
                module(text, Features { subgroup, ..FEATURES }).unwrap_or_else(|e| panic!("{name}: {e}"));
            for (ending, text) in [("wgsl", wgsl(&module)), ("metal", metal(&module))] {
                let path = format!("{}/tests/snapshots/{name}{kind}.{ending}", env!("CARGO_MANIFEST_DIR"));
                if bless {
                    std::fs::write(&path, &text).unwrap_or_else(|e| panic!("{path}: {e}"));
                }
                let recorded = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
                assert!(recorded == text, "{path} differs; KILN_BLESS=1 writes it again. Now it is:\n{text}");
            }
        }
    }
}

/// Where a browser sees no reason why all threads come to a barrier, they read the condition from
/// one place: of a vote, and of shared memory.
#[test]
fn a_browser_gets_a_proof_of_what_decides_about_barriers() {
    let vote = "kernel @vote(%x: view<i32, 1, global>) thread [32, 1, 1] {
      %0 = thread_id x : i64
      %1 = view_load.x1 %x[%0] : i32
      %2 = const 3 : i32
      %3 = gt %1, %2 : bool
      %4 = vote.any %3 : bool
      if %4 {
        barrier
        yield
      } else {
        yield
      }
    }";
    let shared = "kernel @shared(%x: view<i32, 1, global>) thread [32, 1, 1] {
      %0 = thread_id x : i64
      %1 = view_load.x1 %x[%0] : i32
      %2 = alloc shared i32[32] : view<i32, 1, shared>
      view_store.x1 %2[%0] = %1
      barrier
      %3 = const 0 : i64
      %4 = view_load.x1 %2[%3] : i32
      %5 = const 3 : i32
      %6 = gt %4, %5 : bool
      if %6 {
        barrier
        yield
      } else {
        yield
      }
    }";
    for (name, text) in [("vote", vote), ("shared", shared)] {
        let agreed = |asks_for_proof| {
            let features = Features { asks_for_proof, ..FEATURES };
            let text = wgsl(&module(text, features).unwrap_or_else(|e| panic!("{name}: {e}")));
            text.matches("workgroupUniformLoad").count()
        };
        assert_eq!([agreed(false), agreed(true)], [0, 1], "{name}");
    }
}

#[test]
fn every_writer_accepts_every_module() {
    for (name, text) in KERNELS {
        let uniform = module(text, FEATURES).unwrap_or_else(|e| panic!("{name}: {e}"));
        let immediate = Features { immediate_bytes: uniform.parameter_bytes, ..FEATURES };
        let immediate = module(text, immediate).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!([uniform.has_immediates, immediate.has_immediates], [false, true], "{name}");
        [uniform, immediate].iter().for_each(|module| is_written(name, module));
    }
}

fn is_written(name: &str, module: &Module) {
    let spirv = back::spv::write_vec(&module.naga, &module.info, &back::spv::Options::default(), None);
    assert!(spirv.is_ok_and(|words| words[0] == 0x0723_0203), "{name} as SPIR-V");
    let msl = metal(module);
    assert!(msl.contains("kernel void "), "{msl}");
    let options = back::hlsl::Options {
        shader_model: back::hlsl::ShaderModel::V6_2,
        immediates_target: Some(back::hlsl::BindTarget::default()),
        fake_missing_bindings: true,
        ..Default::default()
    };
    let mut hlsl = String::new();
    let pipeline = back::hlsl::PipelineOptions::default();
    let mut writer = back::hlsl::Writer::new(&mut hlsl, &options, &pipeline);
    let written = writer.write(&module.naga, &module.info, None);
    assert!(written.is_ok(), "{name} as HLSL: {written:?}");
    assert!(hlsl.contains("[numthreads("), "{hlsl}");
}

/// Compiles operations, the third line of a file `k.rs`, for an adapter that has nothing special.
fn refusal(params: &str, operations: &str) -> String {
    let text = format!("file \"k.rs\"\nkernel @k({params}) thread [32, 1, 1] {{\n{operations}\n}}");
    match module(&text, Features::default()) {
        Ok(_) => panic!("{operations} was not refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_refused_is_named_with_its_place() {
    let cases = [
        ("%x: view<f32, 1, global>", "  %0 = address %x : u64 @0:3:5", "needs `address`"),
        ("%a: f32", "  %0 = exp %a : f32 @0:3:5", "needs `exp` of f32"),
        ("%a: f32", "  %0 = cast %a : f64 @0:3:5", "needs f64, the feature SHADER_F64"),
        ("", "  fence.device @0:3:5", "needs a fence of the scope `device`"),
        ("", "  %0 = clock.nanos : u64 @0:3:5", "needs `clock`"),
    ];
    for (params, operations, expected) in cases {
        let error = refusal(params, operations);
        assert!(error.contains(expected) && error.contains("k.rs:3:5"), "{operations}: {error}");
    }
}

/// A check ends the thread before, but what follows has to be a shader.
#[test]
fn a_division_by_the_constant_zero_is_written() {
    for op in ["div", "rem"] {
        let text = format!(
            "kernel @k(%x: mut view<i32, 1, global>) thread [1, 1, 1] {{
  %0 = const 0 : i32
  %1 = const 0 : i64
  %a = view_load.x1 %x[%1] : i32
  %z = ne %0, %0 : bool
  check_divisor %z
  %b = {op} %a, %0 : i32
  view_store.x1 %x[%1] = %b
}}"
        );
        let module = module(&text, FEATURES).unwrap_or_else(|e| panic!("{op}: {e}"));
        assert!(wgsl(&module).contains("return;"), "{op}");
    }
}

#[test]
fn a_kernel_over_tiles_is_refused() {
    let kernel = kiln_ir::parse("kernel @k() tile {\n}").unwrap_or_else(|e| panic!("{e}"));
    assert!(matches!(compile(&kernel, FEATURES), Err(Error::Internal { .. })));
}

/// Indices need no 64-bit integers: they are of 32 bits where an adapter has none.
#[test]
fn indices_of_32_bits_need_no_feature() {
    let text = "kernel @k(%x: mut view<f32, 1, global>) thread [32, 1, 1] {
  %0 = thread_id x : i64
  %1 = cast %0 : i32
  %2 = view_load.x1 %x[%1] : f32
  view_store.x1 %x[%1] = %2
}";
    let module = module(text, Features::default()).unwrap_or_else(|e| panic!("{e}"));
    let text = wgsl(&module);
    assert!(text.contains("bitcast<i32>(local_id.x)") && !text.contains("i64"), "{text}");
}
