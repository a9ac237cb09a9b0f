//! The kernels that products of 8-bit floats launch, for GPUs that need not be there: factors are
//! narrowed by rows and by columns without spilled registers. `KILN_PTXAS` names the assembler
//! (`tools/ptxas.sh --path`); without it only the text is looked at.

#[path = "../../kiln-cuda/tests/assembler/mod.rs"]
mod assembler;

use kiln_array::{Array, Result, Scalar, eval, value_and_grad};
use kiln_cuda::{compile_to_ptx, ptx};
use kiln_fuzz::GpuCode;
use kiln_interp::Options;
use kiln_ir::Kernel;
use kiln_runtime::{Device, DiskCache};
use std::process::Command;
use std::sync::{Arc, Mutex};

assembler::tests! {
    text: true;
    factors_are_narrowed_by_ptxas;
    plain:
}

/// The kernels that narrow factors of a product and of its gradients.
fn narrowing(dtype: Scalar) -> Result<Vec<Kernel>> {
    let kernels: Arc<Mutex<Vec<Kernel>>> = Arc::default();
    let seen = kernels.clone();
    let backend = GpuCode::new(Options::default()).with_check(move |kernel, _| {
        if kernel.name == "narrow" {
            seen.lock().unwrap().push(kernel.clone());
        }
        Ok(())
    });
    let device = Device::with_backend(Box::new(backend), DiskCache::none());
    let of = |shape: &[usize]| Array::ones(&device, dtype, shape);
    let loss = |[x, w]: &[Array; 2]| x.matmul_fp8(&w.swap_axes(0, 1)).cast(Scalar::F32).sum();
    let (loss, [of_x, of_w]) = value_and_grad(loss, &[of(&[64, 128]), of(&[64, 128])]);
    eval(&[&loss, &of_x, &of_w])?;
    let kernels = kernels.lock().unwrap().clone();
    Ok(kernels)
}

fn factors_are_narrowed_by_ptxas() -> Result<()> {
    for dtype in [Scalar::BF16, Scalar::F32] {
        let kernels = narrowing(dtype)?;
        // Factors and gradients, by rows and by columns.
        assert!(kernels.len() >= 4, "{}", kernels.len());
        let mut formats = [false; 2];
        for (at, kernel) in kernels.iter().enumerate() {
            for compute in [(8, 0), (9, 0), (10, 0)] {
                let text = check(&format!("{dtype}-{at}"), kernel, compute);
                formats[0] |= text.contains("cvt.rn.satfinite.e4m3x2.f32");
                formats[1] |= text.contains("cvt.rn.satfinite.e5m2x2.f32");
            }
        }
        assert_eq!(formats, [true; 2]);
    }
    Ok(())
}

/// Assembles a kernel for a compute capability.
fn check(what: &str, kernel: &Kernel, compute: (u32, u32)) -> String {
    let module = compile_to_ptx(kernel, ptx::Target { compute, ptx: (9, 0) })
        .unwrap_or_else(|e| panic!("{what} for {compute:?}: {e}"));
    let Some(ptxas) = assembler::path() else { return module.text };
    let arch = format!("-arch=sm_{}{}", compute.0, compute.1);
    let path = std::env::temp_dir().join(format!("kiln-narrow-{what}{arch}-{}.ptx", std::process::id()));
    std::fs::write(&path, &module.text).unwrap();
    let run = Command::new(ptxas).args(["-v", &arch, "-o", "/dev/null"]).arg(&path).output().unwrap();
    std::fs::remove_file(&path).unwrap();
    let log = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{what} for {arch}: {log}");
    assert!(log.contains(" 0 bytes spill stores, 0 bytes spill loads"), "{what} for {arch}: {log}");
    module.text
}
