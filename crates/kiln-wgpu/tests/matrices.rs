//! Products on matrix units whose fragments only they can read: what kernels are lowered to, on the
//! interpreter against sums in f64, and the SPIR-V of the modules. Needs no adapter.

use half::f16;
use kiln_backend::{Backend, BufferBinding, LaunchArguments, StreamId};
use kiln_interp::{Interp, Options};
use kiln_ir::{FragmentOp, Kernel, MatrixOp, OpKind};
use kiln_wgpu::{Features, FloatModes, MatrixSize, ShaderTarget, lowered, shader};
use naga::back::msl;

const STREAM: StreamId = StreamId(0);

/// A GPU with such units, and drivers that take Kiln's SPIR-V.
const TARGET: ShaderTarget<'static> = ShaderTarget {
    device: "a GPU",
    features: Features {
        int64: true,
        float64: true,
        float16: true,
        float_modes: Some(FloatModes::ALL),
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
        exact_extrema: true,
        asks_for_proof: false,
        subgroup: Some(32),
        subgroup_barriers: true,
        loop_rounds: None,
        matrices: Some(MatrixSize::Sixteen),
        warp: 32,
        immediate_bytes: 256,
    },
    max_threads: 1024,
    shared_memory: 48 << 10,
};

/// How a product is written.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// A loop whose factors are loaded for it.
    Loaded,
    /// The transposes of both factors lie in memory.
    Transposed,
    /// Factors are doubled before they are multiplied, and sums begin with ones.
    Computed,
    /// What is carried is multiplied by a half in every round.
    Scaled,
}

/// c = a b, or what a form makes of it, for tiles of these extents.
fn text([m, n, k]: [u32; 3], form: Form) -> String {
    let transposed = form == Form::Transposed;
    let factor = |id: u32, view: &str, [rows, columns]: [u32; 2], [row, column]: [&str; 2]| match transposed {
        true => format!(
            "    %{id} = load %{view}[{column}, {row}] pad %6 : f16[{columns}, {rows}]
    %{} = transpose %{id} [1, 0] : f16[{rows}, {columns}]\n",
            id + 1
        ),
        false => format!("    %{} = load %{view}[{row}, {column}] pad %6 : f16[{rows}, {columns}]\n", id + 1),
    };
    let (before, product) = match form {
        Form::Loaded | Form::Transposed => (String::new(), "%30 = dot %21, %26, %9"),
        Form::Computed => (
            format!("    %22 = add %21, %21 : f16[{m}, {k}]\n    %27 = add %26, %26 : f16[{k}, {n}]\n"),
            "%30 = dot %22, %27, %9",
        ),
        Form::Scaled => (
            format!("    %28 = const 0.5 : f32[{m}, {n}]\n    %29 = mul %9, %28 : f32[{m}, {n}]\n"),
            "%30 = dot %21, %26, %29",
        ),
    };
    let init = if form == Form::Computed { "1.0" } else { "0.0" };
    format!(
        "kernel @mm(%a: view<f16, 2, global> {{align=256, strides=[16, =1]}}, %b: view<f16, 2, global> {{align=256, strides=[16, =1]}}, %c: mut view<f32, 2, global> {{align=256, strides=[16, =1]}}) tile {{
  %x = program_id x : i64
  %y = program_id y : i64
  %m = const {m} : i64
  %n = const {n} : i64
  %2 = mul %y, %m : i64
  %3 = mul %x, %n : i64
  %0 = const 0 : i64
  %4 = const {k} : i64
  %5 = extent %a axis {} : i64
  %6 = const 0.0 : f16
  %7 = const {init} : f32[{m}, {n}]
  %10 = for %8 = %0 to %5 step %4 carry (%9 = %7) : f32[{m}, {n}] {{
{}{}{before}    {product} : f32[{m}, {n}]
    yield %30
  }}
  store.disjoint %c[%2, %3] = %10
}}
",
        u32::from(!transposed),
        factor(20, "a", [m, k], ["%2", "%8"]),
        factor(25, "b", [k, n], ["%8", "%3"]),
    )
}

fn parsed(text: &str) -> Kernel {
    let kernel = kiln_ir::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(kiln_ir::verify(&kernel), Ok(()), "{text}");
    kernel
}

fn count(kernel: &Kernel, of: impl Fn(&MatrixOp) -> bool) -> usize {
    let mut count = 0;
    kernel.walk(|_, data| {
        if let OpKind::Fragment(FragmentOp::Matrix(op)) = &data.kind {
            count += usize::from(of(op));
        }
    });
    count
}

fn multiplies(op: &MatrixOp) -> bool {
    matches!(op, MatrixOp::Multiply { .. })
}

/// Numbers of few bits, so that products and short sums of them are exact.
fn numbers(count: usize, seed: u32) -> Vec<f16> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f16::from_f32(((state >> 20) as f32 - 2048.0) / 1024.0)
    };
    (0..count).map(|_| next()).collect()
}

/// Runs a kernel over threads on factors `[rows, depth]` and `[depth, columns]`, which lie in
/// memory as they are or transposed; its result begins with 7 everywhere.
fn run(
    kernel: &Kernel,
    grid: [u32; 3],
    [rows, columns, depth]: [usize; 3],
    transposed: bool,
) -> (Vec<f32>, [Vec<f16>; 2]) {
    let device = Interp::new(Options::default());
    let factors = [numbers(rows * depth, 1), numbers(depth * columns, 2)];
    let bytes = |values: &[f16]| -> Vec<u8> { values.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let c: Vec<u8> = [7.0f32].repeat(rows * columns).iter().flat_map(|x| x.to_le_bytes()).collect();
    let shapes = match transposed {
        true => [[depth, rows], [columns, depth], [rows, columns]],
        false => [[rows, depth], [depth, columns], [rows, columns]],
    };
    let mut arguments = LaunchArguments::new();
    let mut last = None;
    for (data, [high, wide]) in [bytes(&factors[0]), bytes(&factors[1]), c].iter().zip(shapes) {
        let ptr = device.allocate(data.len(), STREAM).unwrap();
        // SAFETY: the allocation is as long as the data.
        unsafe { device.upload(ptr, data, STREAM) }.unwrap();
        arguments = arguments.view(BufferBinding::write(ptr), &[high as u64, wide as u64]);
        last = Some((ptr, data.len()));
    }
    let program = device.compile(kernel).unwrap().program;
    // SAFETY: the interpreter checks every access.
    unsafe { device.launch(&*program, arguments.launch(grid, STREAM)) }
        .unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    device.synchronize(STREAM).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    let (ptr, len) = last.unwrap();
    let mut result = vec![0; len];
    // SAFETY: the buffer is as long as the allocation.
    unsafe { device.download(&mut result, ptr, STREAM) }.unwrap();
    let result = result.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    (result, factors)
}

/// What a form gives, in f64.
fn reference(
    [rows, columns, depth]: [usize; 3],
    [_, _, k]: [u32; 3],
    form: Form,
    factors: &[Vec<f16>; 2],
) -> Vec<f64> {
    let transposed = form == Form::Transposed;
    let a =
        |i: usize, k: usize| if transposed { factors[0][k * rows + i] } else { factors[0][i * depth + k] };
    let b =
        |k: usize, j: usize| if transposed { factors[1][j * depth + k] } else { factors[1][k * columns + j] };
    let element = |i: usize, j: usize| {
        let product = |k: usize| a(i, k).to_f64() * b(k, j).to_f64();
        match form {
            Form::Loaded | Form::Transposed => (0..depth).map(product).sum(),
            Form::Computed => 1.0 + 4.0 * (0..depth).map(product).sum::<f64>(),
            Form::Scaled => (0..depth)
                .step_by(k as usize)
                .fold(0.0, |sum, at| sum * 0.5 + (at..depth.min(at + k as usize)).map(product).sum::<f64>()),
        }
    };
    (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect()
}

fn check(tile: [u32; 3], all: [usize; 3], form: Form, target: &ShaderTarget<'_>) -> Kernel {
    let kernel = lowered(&parsed(&text(tile, form)), target).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(kiln_ir::verify(&kernel), Ok(()));
    let grid = [all[1].div_ceil(tile[1] as usize) as u32, all[0].div_ceil(tile[0] as usize) as u32, 1];
    let (got, factors) = run(&kernel, grid, all, form == Form::Transposed);
    let want = reference(all, tile, form, &factors);
    for (i, (&got, want)) in got.iter().zip(want).enumerate() {
        let close = (f64::from(got) - want).abs() <= 1e-5 * want.abs().max(1.0);
        assert!(close, "{tile:?} of {all:?}, element {i} is {got}, expected {want}\n{kernel}");
    }
    kernel
}

#[test]
fn products_in_loops_are_right() {
    let sizes = [
        ([16, 16, 16], [16, 16, 16]),
        ([32, 16, 16], [48, 32, 80]),
        ([64, 64, 32], [64, 64, 96]),
        ([64, 32, 64], [80, 48, 80]),
        ([128, 128, 32], [128, 128, 64]),
    ];
    for (tile, all) in sizes {
        for form in [Form::Loaded, Form::Transposed, Form::Computed, Form::Scaled] {
            let kernel = check(tile, all, form, &TARGET);
            // Sums that something else changes are not left to the units.
            let expected = usize::from(form != Form::Scaled);
            assert_eq!(count(&kernel, multiplies), expected, "{tile:?}\n{kernel}");
        }
    }
}

#[test]
fn nothing_is_added_without_a_depth() {
    let kernel = check([64, 64, 32], [64, 64, 0], Form::Computed, &TARGET);
    assert!(count(&kernel, multiplies) > 0);
}

/// Sums that only products change are not moved while a loop runs.
#[test]
fn sums_stay_in_fragments() {
    let kernel = lowered(&parsed(&text([128, 128, 32], Form::Loaded)), &TARGET).unwrap();
    let mut in_loops = 0;
    kernel.walk(|_, data| {
        if data.kind == OpKind::For {
            assert!(data.results.is_empty(), "the loop carries sums\n{kernel}");
            let body = &kernel.block(data.regions[0]).ops;
            let kinds = || body.iter().map(|&op| &kernel.op(op).kind);
            in_loops += kinds().filter(|kind| matches!(kind, OpKind::Fragment(_))).count();
            assert_eq!(kinds().filter(|kind| **kind == OpKind::Barrier).count(), 1, "{kernel}");
        }
    });
    assert_eq!(in_loops, 1, "{kernel}");
    // A warp has 64 x 64 of the sums.
    assert_eq!(count(&kernel, |op| matches!(op, MatrixOp::Store { .. })), 16, "{kernel}");
}

/// Less shared memory: one half of the factors, then none of them.
#[test]
fn what_has_no_room_is_multiplied_without_units() {
    for (shared_memory, multiplies_there) in [(32 << 10, 1), (26 << 10, 1), (16 << 10, 0)] {
        let target = ShaderTarget { shared_memory, ..TARGET };
        let kernel = lowered(&parsed(&text([128, 128, 32], Form::Loaded)), &target);
        let found = kernel.map(|kernel| count(&kernel, multiplies));
        assert_eq!(found.unwrap_or_default(), multiplies_there, "{shared_memory} bytes");
    }
    let target = ShaderTarget { shared_memory: 26 << 10, ..TARGET };
    check([128, 128, 32], [128, 128, 96], Form::Loaded, &target);
}

/// Units are of subgroups, whatever their width is. Where that differs from subgroup to subgroup,
/// there are none.
#[test]
fn subgroups_of_other_widths_multiply_too() {
    for (subgroup, multiplies_there) in [(Some(8), true), (Some(16), true), (Some(64), false), (None, false)]
    {
        let features = Features { subgroup, ..TARGET.features };
        let kernel = check([64, 64, 32], [64, 64, 64], Form::Loaded, &ShaderTarget { features, ..TARGET });
        assert_eq!(count(&kernel, multiplies) > 0, multiplies_there, "subgroups of {subgroup:?}");
    }
}

/// On Metal, whose matrices have 8 rows and columns, fragments are four of them.
#[test]
fn metal_multiplies_matrices_of_8_rows() {
    let features = Features {
        float64: false,
        float_modes: None,
        matrices: Some(MatrixSize::Eight),
        immediate_bytes: 0,
        ..TARGET.features
    };
    let target = ShaderTarget { features, shared_memory: 32 << 10, ..TARGET };
    let kernel = kiln_ir::parse(include_str!("kernels/product.kir")).unwrap_or_else(|e| panic!("{e}"));
    let module = shader(&kernel, &target).unwrap_or_else(|e| panic!("{e}"));
    let options = msl::Options { lang_version: (2, 4), fake_missing_bindings: true, ..Default::default() };
    let written = msl::write_string(&module.naga, &module.info, &options, &Default::default());
    let (text, _) = written.unwrap_or_else(|e| panic!("{e}"));
    assert!(text.contains("simdgroup_half8x8") && text.contains("simdgroup_float8x8"), "{text}");
    assert!(text.contains("simdgroup_multiply_accumulate"), "{text}");
    let path = format!("{}/tests/snapshots/product.metal", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("KILN_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert!(recorded == text, "{path} differs; KILN_BLESS=1 writes it again. Now it is:\n{text}");
}
