//! The plans that products get on a Hopper GPU, which need not be there: without spilled registers
//! and serialized products. `KILN_PTXAS` names the assembler (`tools/ptxas.sh --path`); without it
//! only the text is made.

#[path = "../../kiln-cuda/tests/assembler/mod.rs"]
mod assembler;

use half::bf16;
use kiln_cuda::{compile_to_ptx, ptx};
use kiln_ir::Kernel;
use kiln_kernels::matmul::epilogue::{Along, Combined, Identity, Map, Residual, Then, Vector};
use kiln_kernels::matmul::plan::{Choice, Division, Request, choose, ranked};
use kiln_kernels::matmul::{Epilogue, Factor, hopper};
use kiln_lang::{E4M3, Numeric, Val};
use kiln_runtime::{CostModel, Device, Result, Tensor};
use std::process::Command;

assembler::tests! {
    text: true;
    results_that_wait_spill_nothing_by_ptxas
    two_level_sums_of_three_tasks_spill_nothing_by_ptxas
    few_rows_spill_nothing_by_ptxas
    shared_tiles_spill_nothing_by_ptxas
    ways_of_attention_spill_nothing_by_ptxas
    ways_of_its_gradients_spill_nothing_by_ptxas;
    plain: a_factor_in_registers_is_loaded_in_the_loop
}

const H200: CostModel = CostModel::H200;

/// A product whose result has 16 bits.
fn request<T: Factor>([m, n, k]: [usize; 3], two_level: bool, epilogue: bool) -> Request {
    let bytes = (size_of::<T>(), size_of::<bf16>(), size_of::<f32>());
    let (factor_bytes, result_bytes, sum_bytes) = bytes;
    Request { products: 1, m, n, k, factor_bytes, result_bytes, sum_bytes, two_level, packs: true, epilogue }
}

/// Its plan.
fn chosen<T: Factor>(shape: [usize; 3], two_level: bool, epilogue: bool) -> Choice {
    choose(&request::<T>(shape, two_level, epilogue), &H200)
}

/// The kernel of a plan, with the factors as 8-bit ones must lie.
fn kernel<T: Factor, O: Numeric, E: Epilogue<T::Sum>>(choice: Choice, epilogue: E) -> Result<Kernel> {
    let device = Device::open("interp")?;
    let a: Tensor<T, 3> = device.uninit([1, 256, 256])?;
    let mut c: Tensor<O, 3> = device.uninit([1, 256, 256])?;
    let plan = hopper::MatmulPlan { b_transposed: true, ..choice.plan };
    hopper::matmul::<T, T, O, E>(&a, &a, &mut c, epilogue, plan).ir()
}

/// The kernel of the best plan by the estimate that is stream-K.
fn stream_k<T: Factor, E: Epilogue<T::Sum>>(
    shape: [usize; 3],
    two_level: bool,
    epilogue: E,
) -> Result<Kernel> {
    let all = ranked(&request::<T>(shape, two_level, false), &H200);
    let choice =
        all.into_iter().find(|choice| choice.form().division == Division::StreamK).expect("one is stream-K");
    let device = Device::open("interp")?;
    let a: Tensor<T, 3> = device.uninit([1, 256, 256])?;
    let mut c: Tensor<bf16, 3> = device.uninit([1, 256, 256])?;
    let mut parts: Tensor<T::Sum, 1> = device.uninit([choice.plan.parts(132)])?;
    let mut signals: Tensor<u32, 1> = device.uninit([512])?;
    let plan = hopper::MatmulPlan { b_transposed: true, ..choice.plan };
    hopper::stream_k::<T, T, bf16, E>(&a, &a, &mut c, &mut parts, &mut signals, epilogue, plan).ir()
}

fn check(what: &str, kernel: &Kernel) {
    let module = compile_to_ptx(kernel, ptx::Target { compute: (9, 0), ptx: (9, 0) })
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(module.whole_program, module.text.contains("setmaxnreg"), "{what}");
    let Some(ptxas) = assembler::path() else { return };
    let name: String = what.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let path = std::env::temp_dir().join(format!("kiln-{name}-{}.ptx", std::process::id()));
    std::fs::write(&path, &module.text).unwrap();
    let run =
        Command::new(ptxas).args(["-v", "-arch=sm_90a", "-o", "/dev/null"]).arg(&path).output().unwrap();
    std::fs::remove_file(&path).unwrap();
    let log = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && !log.contains("arning"), "{what}: {log}");
    assert!(log.contains(" 0 bytes spill stores, 0 bytes spill loads"), "{what}: {log}");
}

fn results_that_wait_spill_nothing_by_ptxas() -> Result<()> {
    let device = Device::open("interp")?;
    let large = chosen::<bf16>([4096; 3], false, false);
    assert!(large.plan.held);
    check("a large product", &kernel::<bf16, bf16, Identity>(large, Identity)?);
    let bias = || -> Result<_> {
        Ok(Vector {
            values: device.uninit::<f32, 1>([256])?,
            along: Along::Columns,
            combined: Combined::Term,
        })
    };
    let large = chosen::<bf16>([4096; 3], false, true);
    assert!(large.plan.held);
    check("with a bias", &kernel::<bf16, bf16, _>(large, bias()?)?);
    let layer = Then(bias()?, Map::new(|x: Val<f32>| x.maximum(0.0)));
    check("a layer", &kernel::<bf16, bf16, _>(large, layer)?);
    let residual =
        || -> Result<_> { Ok(Residual { values: device.uninit::<bf16, 3>([1, 256, 256])?, beta: 0.5 }) };
    // Behind a bias and a function a residual costs one spilled word a thread, once a tile.
    check("a residual", &kernel::<bf16, bf16, _>(large, residual()?)?);
    let bytes = chosen::<E4M3>([8192; 3], false, false);
    assert!(bytes.plan.held);
    check("fast sums", &kernel::<E4M3, bf16, Identity>(bytes, Identity)?);
    Ok(())
}

fn two_level_sums_of_three_tasks_spill_nothing_by_ptxas() -> Result<()> {
    let device = Device::open("interp")?;
    let plan = chosen::<E4M3>([8192; 3], true, true);
    assert_eq!(plan.plan.tasks, 3);
    let scale = || -> Result<_> {
        Ok(Vector { values: device.uninit::<f32, 1>([1])?, along: Along::All, combined: Combined::Factor })
    };
    check("two levels", &kernel::<E4M3, bf16, _>(plan, Then(scale()?, scale()?))?);
    Ok(())
}

fn few_rows_spill_nothing_by_ptxas() -> Result<()> {
    for m in [8, 16, 64] {
        let plan = chosen::<bf16>([m, 8192, 8192], false, false);
        assert!(plan.transposed && plan.plan.staggered == (m < 64));
        check(&format!("{m} rows"), &kernel::<bf16, bf16, Identity>(plan, Identity)?);
    }
    Ok(())
}

fn shared_tiles_spill_nothing_by_ptxas() -> Result<()> {
    check("stream-K", &stream_k::<bf16, _>([4096; 3], false, Identity)?);
    let scale = Vector {
        values: Device::open("interp")?.uninit::<f32, 1>([1])?,
        along: Along::All,
        combined: Combined::Factor,
    };
    check("stream-K, scaled", &stream_k::<bf16, _>([4096; 3], false, scale)?);
    check("two levels stream-K", &stream_k::<E4M3, _>([4096; 3], true, Identity)?);
    check("few rows stream-K", &stream_k::<bf16, _>([64, 4096, 4096], false, Identity)?);
    check("a long sum stream-K", &stream_k::<bf16, _>([512, 512, 16384], false, Identity)?);
    Ok(())
}

fn ways_of_attention_spill_nothing_by_ptxas() -> Result<()> {
    use kiln_kernels::attention::hopper::{AttentionPlan, attention};
    let device = Device::open("interp")?;
    let (order, none) = (device.uninit::<i64, 2>([16, 132])?, device.uninit::<i32, 2>([1, 4])?);
    for width in [64, 128, 256] {
        let q: Tensor<bf16, 4> = device.uninit([1, 2, 256, width])?;
        let (mut o, mut sums) = (device.uninit([1, 2, 256, width])?, device.uninit([1, 2, 256])?);
        for &division in AttentionPlan::divisions(width) {
            for bounded in [[false; 2], [false, true], [true, true]] {
                let plan = AttentionPlan { bounded, ..AttentionPlan::divided(width, 1, division) };
                let launch = attention(&q, &q, &q, &mut o, &mut sums, &order, &none, 0.1, 1.0, 9, 0, plan);
                check(&format!("attention of {width}, {division:?}, {bounded:?}"), &launch.ir()?);
            }
        }
    }
    Ok(())
}

fn ways_of_its_gradients_spill_nothing_by_ptxas() -> Result<()> {
    use kiln_kernels::attention::hopper_gradients::{GradientPlan, of_keys, of_queries};
    let device = Device::open("interp")?;
    let order = device.uninit::<i64, 2>([16, 132])?;
    for width in [64, 128] {
        let q: Tensor<bf16, 4> = device.uninit([1, 2, 256, width])?;
        let (mut of_q, mut of_kv) =
            (device.uninit([1, 2, 256, width])?, device.uninit([2, 1, 2, 256, width])?);
        let sums: Tensor<f32, 3> = device.uninit([1, 2, 256])?;
        let [queries, keys] = GradientPlan::divisions(width);
        for causal in [false, true] {
            for &division in queries {
                let plan = GradientPlan::divided(width, causal, division);
                let launch = of_queries(&q, &q, &q, &q, &sums, &sums, &mut of_q, &order, 0.1, plan);
                check(&format!("gradients of queries of {width}, {plan:?}"), &launch.ir()?);
            }
            for &division in keys {
                let plan = GradientPlan::divided(width, causal, division);
                let launch = of_keys(&q, &q, &q, &q, &sums, &sums, &mut of_kv, &order, 0.1, plan);
                check(&format!("gradients of keys of {width}, {plan:?}"), &launch.ir()?);
            }
        }
    }
    Ok(())
}

/// Of a factor that was loaded before a loop the assembler gave the registers to other values, so
/// that the second turn multiplied those.
fn a_factor_in_registers_is_loaded_in_the_loop() {
    let load = "%rows = shared_load %left, %0 : u32[64, 32]";
    let compile = |before: &str, within: &str| {
        let text = format!(
            "kernel @k(%c: mut view<f32, 2, global>, %n: i64) tile {{
  %left = shared_tile stages 1 rows 64 columns 128 : view<e4m3, 3, shared>
  %right = shared_tile stages 1 rows 64 columns 128 : view<e4m3, 3, shared>
  %0 = const 0 : i64
  %1 = const 1 : i64
  %no = const false : bool
  tasks warps 4 registers 160 {{
    {before}
    for %i = %0 to %n step %1 {{
      {within}
      %zeros = const 0.0 : f32[64, 64]
      %flight = wgmma_registers %right, %0, %no, %rows, %zeros transposed_b 0 : f32[64, 64]
      %product = wgmma_wait %flight pending 0 : f32[64, 64]
      store %c[%0, %0] = %product
      yield
    }}
    yield
  }}
}}
"
        );
        let kernel = kiln_ir::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        compile_to_ptx(&kernel, ptx::Target { compute: (9, 0), ptx: (9, 0) })
    };
    compile("", load).unwrap();
    let refused = compile(load, "").unwrap_err().to_string();
    assert!(refused.contains("every turn of a loop") && refused.contains("`words`"), "{refused}");
}
