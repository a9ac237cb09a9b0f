//! The expansions of elementary functions, run by the interpreter, against the standard library in
//! f64.

use kiln_backend::{Backend, BufferBinding, LaunchArguments, StreamId};
use kiln_compiler::expand::expand;
use kiln_interp::Interp;
use kiln_ir::*;

/// Evaluates an operation on arrays of bits, expanded, through a kernel.
fn run(kind: OpKind, elem: Scalar, inputs: &[Vec<u64>]) -> Vec<u64> {
    let n = inputs[0].len();
    let mut kernel = Kernel::new("f", Level::Tile { warps: None });
    let ty = Type::view(elem, 1, Space::Global);
    let param =
        |name: &str, mutable| Param { name: name.into(), ty: ty.clone(), mutable, facts: Facts::default() };
    let views: Vec<Value> =
        (0..inputs.len()).map(|i| kernel.add_param(param(&format!("x{i}"), false))).collect();
    let out = kernel.add_param(param("y", true));
    let mut b = Builder::new(&mut kernel);
    let (zero, padding) = (b.index(0), b.constant(Literal::one(elem)));
    let shape = Shape::new(&[n as u32]);
    let tiles: Vec<Value> =
        views.iter().map(|&v| b.load(v, &[zero], padding, shape.clone(), Reuse::Normal)).collect();
    let op = b.op(kind, &tiles, &[Type::tile(elem, shape)]);
    let result = b.kernel.result(op);
    b.store(out, &[zero], result, Reuse::Normal, true);
    expand(&mut kernel);
    verify(&kernel).unwrap_or_else(|e| panic!("{e:?}\n{kernel}"));

    let device = Interp::new(kiln_interp::Options::default());
    let stream = StreamId::default();
    let size = elem.bytes() as usize;
    let mut arguments = LaunchArguments::new();
    let mut buffers = Vec::new();
    for data in inputs.iter().chain([&vec![0x7777; n]]) {
        let bytes: Vec<u8> = data.iter().flat_map(|v| v.to_le_bytes()[..size].to_vec()).collect();
        let ptr = device.allocate(bytes.len(), stream).unwrap();
        // SAFETY: the allocation has this many bytes.
        unsafe { device.upload(ptr, &bytes, stream).unwrap() };
        arguments = arguments.view(BufferBinding::write(ptr), &[n as u64]);
        buffers.push(ptr);
    }
    let program = device.compile(&kernel).unwrap().program;
    // SAFETY: each view is all of a live allocation.
    unsafe { device.launch(&*program, arguments.launch([1, 1, 1], stream)).unwrap() };
    let mut bytes = vec![0u8; n * size];
    // SAFETY: the output has this many bytes.
    unsafe { device.download(&mut bytes, *buffers.last().unwrap(), stream).unwrap() };
    let word = |c: &[u8]| c.iter().rev().fold(0u64, |w, &b| w << 8 | u64::from(b));
    bytes.chunks(size).map(word).collect()
}

/// Distance in units of the last place; 0 for equal specials, infinite for a special against
/// something else.
fn ulps(elem: Scalar, got: f64, want: f64) -> f64 {
    if got == want || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !want.is_finite() {
        return f64::INFINITY;
    }
    let (digits, least) = match elem {
        Scalar::F16 => (10, -24),
        Scalar::BF16 => (7, -133),
        Scalar::F32 => (23, -149),
        _ => (52, -1074),
    };
    let exponent = want.abs().max(f64::MIN_POSITIVE).log2().floor() as i32;
    (got - want).abs() / f64::from((exponent - digits).max(least)).exp2()
}

/// A fixed sequence of pseudo-random numbers in [0, 1) (Marsaglia's xorshift64).
fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn check_unary(op: UnaryOp, elem: Scalar, range: (f64, f64), tolerance: f64, reference: impl Fn(f64) -> f64) {
    let mut next = random(op.name().bytes().map(u64::from).sum());
    let specials = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1.0,
        -1.0,
        0.5,
        1e-30,
        -1e-30,
        range.0,
        range.1,
    ];
    let values = specials.into_iter().chain((0..4000).map(|_| range.0 + (range.1 - range.0) * next()));
    let bits: Vec<u64> = values.map(|v| Literal::from_f64(elem, v).bits()).collect();
    let results = run(OpKind::Unary(op), elem, std::slice::from_ref(&bits));
    for (&x, &y) in bits.iter().zip(&results) {
        let (x, got) = (Literal::from_bits(elem, x).as_f64(), Literal::from_bits(elem, y).as_f64());
        let want = reference(x);
        let rounded = Literal::from_f64(elem, want).as_f64();
        let off = if rounded.is_finite() { ulps(elem, got, want) } else { ulps(elem, got, rounded) };
        assert!(off <= tolerance, "{op:?} of {elem} at {x:e}: got {got:e}, want {want:e}, {off} ulp");
    }
}

const FLOATS: [(Scalar, f64); 4] =
    [(Scalar::F16, 0.51), (Scalar::BF16, 0.51), (Scalar::F32, 4.0), (Scalar::F64, 4.0)];

#[test]
fn exponentials_and_logarithms() {
    for (elem, tolerance) in FLOATS {
        check_unary(UnaryOp::Math(MathFn::Exp), elem, (-100.0, 88.0), tolerance, f64::exp);
        check_unary(UnaryOp::Math(MathFn::Exp), elem, (-2.0, 2.0), tolerance, f64::exp);
        check_unary(UnaryOp::Exp2, elem, (-120.0, 127.0), tolerance, f64::exp2);
        check_unary(UnaryOp::Math(MathFn::Log), elem, (0.0, 4.0), tolerance, f64::ln);
        check_unary(UnaryOp::Math(MathFn::Log), elem, (1e-3, 1e4), tolerance, f64::ln);
        check_unary(UnaryOp::Math(MathFn::Log2), elem, (0.0, 4.0), tolerance, f64::log2);
        check_unary(UnaryOp::Math(MathFn::Log1p), elem, (-1.0, 8.0), tolerance + 2.0, f64::ln_1p);
        check_unary(UnaryOp::Math(MathFn::Log1p), elem, (-1e-6, 1e-6), tolerance + 2.0, f64::ln_1p);
        check_unary(UnaryOp::Rsqrt, elem, (1e-3, 1e4), tolerance, |x| 1.0 / x.sqrt());
    }
    check_unary(UnaryOp::Math(MathFn::Exp), Scalar::F64, (-745.0, 709.7), 4.0, f64::exp);
    check_unary(UnaryOp::Math(MathFn::Log), Scalar::F32, (1e-45, 1e-38), 4.0, f64::ln);
}

#[test]
fn hyperbolic_and_error_functions() {
    for (elem, tolerance) in FLOATS {
        check_unary(UnaryOp::Math(MathFn::Tanh), elem, (-12.0, 12.0), tolerance, f64::tanh);
        check_unary(UnaryOp::Math(MathFn::Tanh), elem, (-1.0, 1.0), tolerance, f64::tanh);
        check_unary(UnaryOp::Math(MathFn::Sigmoid), elem, (-20.0, 20.0), tolerance, |x| {
            1.0 / (1.0 + (-x).exp())
        });
        // The f64 reference sums up to 150 terms, which costs it a few ulp of its own.
        let tolerance = if elem == Scalar::F64 { 10.0 } else { tolerance };
        check_unary(UnaryOp::Math(MathFn::Erf), elem, (-7.0, 7.0), tolerance, erf);
        check_unary(UnaryOp::Math(MathFn::Erf), elem, (-1.3, 1.3), tolerance, erf);
    }
}

#[test]
fn sine_and_cosine() {
    for (elem, tolerance) in FLOATS {
        check_unary(UnaryOp::Math(MathFn::Sin), elem, (-10.0, 10.0), tolerance, f64::sin);
        check_unary(UnaryOp::Math(MathFn::Cos), elem, (-10.0, 10.0), tolerance, f64::cos);
        check_unary(UnaryOp::Math(MathFn::Sin), elem, (-6e4, 6e4), tolerance, f64::sin);
    }
}

/// erf by its series of positive terms, and the complement by its continued fraction: independent
/// of the rational approximations.
fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let a = x.abs();
    let value = if a > 6.5 {
        1.0
    } else if a < 1.5 {
        let (mut term, mut sum) = (a, a);
        for n in 1..120 {
            term *= 2.0 * a * a / (2 * n + 1) as f64;
            sum += term;
        }
        sum * (-a * a).exp() * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let tail = (1..600).rev().fold(0.0, |t, k| k as f64 / 2.0 / (a + t));
        1.0 - (-a * a).exp() / (a + tail) * std::f64::consts::FRAC_2_SQRT_PI / 2.0
    };
    value.copysign(x)
}

fn check_binary(
    op: BinaryOp,
    elem: Scalar,
    range: (f64, f64),
    tolerance: f64,
    reference: impl Fn(f64, f64) -> f64,
) {
    let mut next = random(op as u64 + 99);
    let specials =
        [0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, 7.25, -0.25, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let mut pairs: Vec<(f64, f64)> = specials.iter().flat_map(|&x| specials.map(|y| (x, y))).collect();
    let mut draw = || range.0 + (range.1 - range.0) * next();
    pairs.extend((0..4000).map(|_| (draw(), draw())));
    let bits = |f: &dyn Fn(&(f64, f64)) -> f64| {
        pairs.iter().map(|p| Literal::from_f64(elem, f(p)).bits()).collect::<Vec<_>>()
    };
    let (xs, ys) = (bits(&|p| p.0), bits(&|p| p.1));
    let results = run(OpKind::Binary(op), elem, &[xs.clone(), ys.clone()]);
    for ((&x, &y), &r) in xs.iter().zip(&ys).zip(&results) {
        let [x, y, got] = [x, y, r].map(|v| Literal::from_bits(elem, v).as_f64());
        let want = reference(x, y);
        let rounded = Literal::from_f64(elem, want).as_f64();
        let off = if rounded.is_finite() { ulps(elem, got, want) } else { ulps(elem, got, rounded) };
        assert!(
            off <= tolerance,
            "{op:?} of {elem} at ({x:e}, {y:e}): got {got:e}, want {want:e}, {off} ulp"
        );
    }
}

#[test]
fn powers_and_angles() {
    for (elem, tolerance) in FLOATS {
        let power = if elem == Scalar::F64 { 512.0 } else { tolerance };
        check_binary(BinaryOp::Pow, elem, (-4.0, 12.0), power, f64::powf);
        check_binary(BinaryOp::Atan2, elem, (-5.0, 5.0), tolerance, f64::atan2);
    }
}
