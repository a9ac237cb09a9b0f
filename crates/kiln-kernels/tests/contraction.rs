//! Library kernels whose speed is measured keep their multiply-adds and fast divisions on GPUs.

use kiln_cuda::{compile_to_ptx, ptx};
use kiln_ir::Kernel;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Result, Tensor};

/// Several operations on the way from memory to memory, as `kiln bench` times them.
#[kernel(crate = kiln_runtime, contract)]
fn chain(x: &Tensor<f32, 1>, y: &Tensor<f32, 1>, z: &mut Tensor<f32, 1>, block: usize) {
    let at = program_id(0) * block;
    let (a, b) = (x.tile(at, block).load(0.0), y.tile(at, block).load(0.0));
    z.tile(at, block).store((a * b + a).maximum(0.0) * 0.5 + b.tanh());
}

fn ptx_of(kernel: &Kernel) -> String {
    assert!(kernel.contract, "{} does not contract", kernel.name);
    let target = ptx::Target { compute: (9, 0), ptx: (9, 0) };
    compile_to_ptx(kernel, target).unwrap_or_else(|e| panic!("{}: {e}", kernel.name)).text
}

fn is_fast(kernel: &Kernel) {
    let text = ptx_of(kernel);
    for slow in ["div.rn", "rcp.rn", "sqrt.rn", "mul.rn.f32", "add.rn.f32", "sub.rn.f32"] {
        assert!(!text.contains(slow), "{} has {slow}:\n{text}", kernel.name);
    }
}

#[test]
fn rows_and_chains_are_fast() -> Result<()> {
    let device = Device::open("interp")?;
    let (x, v) = (device.zeros([4, 512])?, device.zeros::<f32, 1>([512])?);
    let (mut y, mut z) = (device.zeros([4, 512])?, device.zeros([512])?);
    is_fast(&kiln_kernels::rows::kernels::softmax(&x, &mut y, 512).ir()?);
    is_fast(&kiln_kernels::rows::kernels::layer_norm(&x, &v, &v, &mut y, 1e-5, 1, 512).ir()?);
    is_fast(&chain(&v, &v, &mut z, 512).ir()?);
    Ok(())
}
