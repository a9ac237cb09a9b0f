//! Running one function on both sides.

use kiln_backend::{Backend, BufferBinding, LaunchArguments, StreamId};
use kiln_interp::{Interp, Options};
use kiln_lang::prelude::*;

/// The inputs: small numbers around zero, more than one block of 32 threads.
pub const INPUTS: std::ops::Range<i32> = -9..41;

/// What `device` gives for each input, from the interpreter.
pub fn on_device(name: &str, device: impl FnOnce(Val<i32>) -> Val<i32>) -> Vec<i32> {
    let level = Level::Thread { block: [32, 1, 1] };
    let kernel = trace(name, level, |p| {
        let x = p.view::<i32, 1>("x", Default::default());
        let y = p.view_mut::<i32, 1>("y", Default::default());
        let i = thread_index();
        let input = x.get_or(i, 0);
        y.set_or_skip(i, device(input));
    });
    let kernel = kernel.unwrap_or_else(|e| panic!("{e}"));
    kiln_ir::verify(&kernel).unwrap_or_else(|e| panic!("{e:?}\n{kernel}"));

    let inputs: Vec<i32> = INPUTS.collect();
    let bytes: Vec<u8> = inputs.iter().flat_map(|x| x.to_le_bytes()).collect();
    let poison = vec![0xabu8; bytes.len()];
    let interp = Interp::new(Options::default());
    let stream = StreamId::default();
    let program = interp.compile(&kernel).unwrap().program;
    let mut out = poison.clone();
    // SAFETY: every pointer is an allocation of this device of `bytes.len()` bytes, and each view
    // is all of one.
    unsafe {
        let x = interp.allocate(bytes.len(), stream).unwrap();
        let y = interp.allocate(bytes.len(), stream).unwrap();
        interp.upload(x, &bytes, stream).unwrap();
        interp.upload(y, &poison, stream).unwrap();
        let n = inputs.len() as u64;
        let arguments =
            LaunchArguments::new().view(BufferBinding::read(x), &[n]).view(BufferBinding::write(y), &[n]);
        interp.launch(program.as_ref(), arguments.launch([2, 1, 1], stream)).unwrap();
        interp.download(&mut out, y, stream).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    }
    out.chunks_exact(4).map(|c| i32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

/// Compiles a body for the device and for the host, and compares them on every input.
#[macro_export]
macro_rules! both {
    ($($name:ident($x:ident) { $($body:tt)* })*) => {$(
        mod $name {
            mod device {
                #[allow(unused_imports)]
                use super::super::device_helpers::*;
                #[allow(unused_imports)]
                use kiln_lang::prelude::*;
                #[device(crate = kiln_lang)]
                pub fn run($x: Val<i32>) -> Val<i32> { $($body)* }
            }

            #[allow(clippy::all, unused)]
            mod host {
                #[allow(unused_imports)]
                use super::super::host_helpers::*;
                pub fn run($x: i32) -> i32 { $($body)* }
            }

            #[test]
            fn agrees_with_the_host() {
                let got = $crate::harness::on_device(stringify!($name), device::run);
                let want: Vec<i32> = $crate::harness::INPUTS.map(host::run).collect();
                assert_eq!(got, want);
            }
        }
    )*};
}
