//! The mathematical functions of the language: what they should give, and by how much each device
//! may be off.

use super::element::{InEachType, Measured, Operands};
use half::{bf16, f16};
use kiln_ir::Scalar;
use pxfm as exactly;

/// Devices that compute functions by the same code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The interpreter, which rounds each operation correctly.
    Interp,
    /// The host's processor.
    Cpu,
    /// NVIDIA's GPUs, and code for GPUs on the interpreter.
    Cuda,
    /// GPUs through Vulkan, Metal and DX12.
    Wgpu,
}

impl Family {
    /// The family of a device, by its name.
    pub fn of(device: &str) -> Family {
        match device.split(':').next() {
            Some("cpu") => Family::Cpu,
            Some("wgpu") => Family::Wgpu,
            Some("interp") if !device.contains("gpu-code") => Family::Interp,
            _ => Family::Cuda,
        }
    }
}

/// A function of one or two floats.
pub struct Function {
    /// The name of the method.
    pub name: &'static str,
    /// The number of operands.
    pub operands: usize,
    /// The exact value, as the nearest f64.
    pub exact: fn(f64, f64) -> f64,
    /// Whether the function makes a promise for these arguments.
    pub promises: fn(f64, f64) -> bool,
    /// The function in the code of a device.
    pub device: InEachType,
    /// Bounds of the errors of f32 and f64 by family, in units in the last place.
    bounds: [[f64; 4]; 2],
}

impl Function {
    /// The largest error that devices of a family may have in a type, in units in the last place.
    /// Where the exact value of a function of f64 is rounded, its half unit is not counted.
    ///
    /// Those of 16 bits are computed in f32 and rounded once.
    pub fn bound<T: Measured>(&self, family: Family) -> f64 {
        let [single, double] = self.bounds.map(|bounds| bounds[family as usize]);
        match T::SCALAR {
            Scalar::F64 => double,
            Scalar::F32 => single,
            _ => 0.5 + single * f64::from(T::DIGITS - <f32 as Measured>::DIGITS).exp2(),
        }
    }

    /// The function of this name.
    pub fn named(name: &str) -> Option<&'static Function> {
        FUNCTIONS.iter().find(|function| function.name == name)
    }
}

/// `name [operands] device, exact value, (where it makes a promise,) bounds of f32 and f64 for
/// interp, cpu, cuda, wgpu;`
macro_rules! functions {
    ($($name:ident [$operands:literal] |$x:ident, $y:pat_param| $device:expr, $exact:expr, $promises:expr,
        $single:expr, $double:expr;)*) => {
        /// The mathematical functions of the language.
        pub static FUNCTIONS: &[Function] = &[$(Function {
            name: stringify!($name),
            operands: $operands,
            exact: $exact,
            promises: $promises,
            device: InEachType {
                f16: |[$x, $y]: Operands<f16>| $device,
                bf16: |[$x, $y]: Operands<bf16>| $device,
                f32: |[$x, $y]: Operands<f32>| $device,
                f64: |[$x, $y]: Operands<f64>| $device,
            },
            bounds: [$single, $double],
        }),*];
    };
}

/// Everywhere.
const ALL: fn(f64, f64) -> bool = |_, _| true;
/// Angles whose quarter turns code for GPUs counts in f64.
const ANGLES: fn(f64, f64) -> bool = |x, _| x.abs() <= 1e9 || !x.is_finite();
/// Divisors whose reciprocals are normal numbers.
const DIVISOR: fn(f64, f64) -> bool = |_, y| (126f64.exp2().recip()..=126f64.exp2()).contains(&y.abs());
/// As [`DIVISOR`].
const RECIPROCAL: fn(f64, f64) -> bool = |x, _| DIVISOR(0.0, x);

/// Half a unit, and a little for what is undecided.
const ROUNDED: [f64; 4] = [0.501; 4];

functions! {
    exp [1] |x, _| x.exp(), |x, _| exactly::f_exp(x), ALL, [0.501, 1.5, 4.0, 2.5], [1.0, 1.0, 2.0, 2.0];
    exp2 [1] |x, _| x.exp2(), |x, _| exactly::f_exp2(x), ALL, [0.501, 1.5, 3.0, 2.5], [1.0, 1.0, 2.0, 2.0];
    expm1 [1] |x, _| x.expm1(), |x, _| exactly::f_expm1(x), ALL, [3.0, 3.0, 8.0, 4.0], [3.0; 4];
    log [1] |x, _| x.log(), |x, _| exactly::f_log(x), ALL, [0.501, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0];
    log2 [1] |x, _| x.log2(), |x, _| exactly::f_log2(x), ALL, [0.501, 1.5, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0];
    log10 [1] |x, _| x.log10(), |x, _| exactly::f_log10(x), ALL, [2.0, 2.5, 3.0, 3.0], [3.0; 4];
    log1p [1] |x, _| x.log1p(), |x, _| exactly::f_log1p(x), ALL, [0.501, 3.0, 5.0, 4.0], [1.0, 1.0, 3.0, 3.0];
    sin [1] |x, _| x.sin(), |x, _| exactly::f_sin(x), ANGLES, [0.501, 2.0, 2.0, 2.0], [1.0, 1.0, 3.0, 3.0];
    cos [1] |x, _| x.cos(), |x, _| exactly::f_cos(x), ANGLES, [0.501, 2.0, 2.0, 2.0], [1.0, 1.0, 3.0, 3.0];
    tan [1] |x, _| x.tan(), |x, _| exactly::f_tan(x), ANGLES, [2.0, 4.0, 4.0, 4.0], [3.0, 3.0, 4.0, 4.0];
    asin [1] |x, _| x.asin(), |x, _| exactly::f_asin(x), ALL, [2.0, 2.0, 6.0, 4.0], [3.0; 4];
    acos [1] |x, _| x.acos(), |x, _| exactly::f_acos(x), ALL, [2.0, 2.0, 6.0, 4.0], [2.0, 2.0, 3.0, 3.0];
    atan [1] |x, _| x.atan(), |x, _| exactly::f_atan(x), ALL, [0.501, 1.0, 6.0, 4.0], [1.0, 1.0, 3.0, 3.0];
    sinh [1] |x, _| x.sinh(), |x, _| sinh(x), ALL, [3.0, 4.0, 8.0, 4.0], [3.0; 4];
    cosh [1] |x, _| x.cosh(), |x, _| exactly::f_cosh(x), ALL, [2.5, 4.0, 8.0, 4.0], [3.0; 4];
    tanh [1] |x, _| x.tanh(), |x, _| exactly::f_tanh(x), ALL, [0.501, 2.0, 4.0, 2.0], [2.0, 2.0, 4.0, 4.0];
    asinh [1] |x, _| x.asinh(), |x, _| exactly::f_asinh(x), ALL, [2.0, 4.0, 6.0, 4.0], [2.0, 2.0, 3.0, 3.0];
    acosh [1] |x, _| x.acosh(), |x, _| exactly::f_acosh(x), ALL, [2.0, 4.0, 6.0, 4.0], [2.0, 2.0, 3.0, 3.0];
    atanh [1] |x, _| x.atanh(), |x, _| exactly::f_atanh(x), ALL, [2.0, 4.0, 6.0, 4.0], [2.0, 2.0, 3.0, 3.0];
    cbrt [1] |x, _| x.cbrt(), |x, _| exactly::f_cbrt(x), ALL, [1.0, 1.0, 4.0, 2.0], [2.0; 4];
    rsqrt [1] |x, _| x.rsqrt(), |x, _| exactly::f_rsqrt(x), ALL, [0.501, 2.0, 3.0, 2.0], [1.0, 1.0, 2.0, 2.0];
    erf [1] |x, _| x.erf(), |x, _| exactly::f_erf(x), ALL, [0.501, 1.5, 6.0, 4.0], [1.0, 1.0, 2.0, 2.0];
    sigmoid [1] |x, _| x.sigmoid(), |x, _| sigmoid(x), ALL, [0.501, 2.5, 6.0, 4.0], [2.0, 2.0, 3.0, 3.0];
    sqrt [1] |x, _| x.sqrt(), |x, _| x.sqrt(), ALL, ROUNDED, [0.0; 4];
    recip [1] |x, _| x.recip(), |x, _| x.recip(), ALL, ROUNDED, [0.0; 4];
    fast_recip [1] |x, _| x.fast_recip(), |x, _| x.recip(), RECIPROCAL, [2.0; 4], [2.0; 4];
    fast_div [2] |x, y| x.fast_div(y), |x, y| x / y, DIVISOR, [2.0; 4], [2.0; 4];
    pow [2] |x, y| x.pow(y), pow, ALL, [0.501, 0.51, 0.51, 0.51], [1.0, 1.0, 4096.0, 4096.0];
    atan2 [2] |y, x| y.atan2(x), atan2, ALL, [0.501, 1.0, 6.0, 4.0], [1.0, 1.0, 3.0, 3.0];
    hypot [2] |x, y| x.hypot(y), |x, y| exactly::f_hypot(x, y), ALL, [2.5; 4], [3.0; 4];
    rem [2] |x, y| x % y, |x, y| x % y, ALL, [0.0; 4], [0.0; 4];
}

/// The hyperbolic sine; that of `pxfm` loses the sign of a zero.
fn sinh(x: f64) -> f64 {
    if x == 0.0 { x } else { exactly::f_sinh(x) }
}

/// The power; that of `pxfm` has NaN where the other operand decides (IEEE 754, 9.2.1) and for a
/// few of the largest bases, and loses the sign of what underflows.
fn pow(x: f64, y: f64) -> f64 {
    let power = exactly::f_pow(x, y);
    if power.is_nan() || power == 0.0 { libm::pow(x, y) } else { power }
}

/// The angle, whose sign is that of y; that of `pxfm` loses it where it becomes zero.
fn atan2(y: f64, x: f64) -> f64 {
    exactly::f_atan2(y, x).copysign(y)
}

/// 1 / (1 + e^-x), by exponentials of negative numbers alone, which do not overflow. Within two
/// units in the last place of f64.
fn sigmoid(x: f64) -> f64 {
    let e = exactly::f_exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::{arguments, pairs};

    type Unary = fn(f64) -> f64;

    /// The reference against another library, in units in the last place of f64.
    fn check(name: &str, other: impl Fn(f64, f64) -> f64, at: &[[f32; 2]]) {
        let function = Function::named(name).unwrap();
        for [x, y] in at.iter().map(|pair| pair.map(f64::from)) {
            let (a, b) = ((function.exact)(x, y), other(x, y));
            assert_eq!(a.is_nan(), b.is_nan(), "{name} of {x:e}, {y:e}: {a:e}, {b:e}");
            assert!(a.is_nan() || a.distance(b) <= 3.0, "{name} of {x:e}, {y:e}: {a:e}, {b:e}");
        }
    }

    #[test]
    fn two_libraries_agree() {
        let one: Vec<[f32; 2]> = arguments(8192).into_iter().map(|x| [x; 2]).collect();
        let functions: [(&str, Unary); 22] = [
            ("exp", libm::exp),
            ("exp2", libm::exp2),
            ("expm1", libm::expm1),
            ("log", libm::log),
            ("log2", libm::log2),
            ("log10", libm::log10),
            ("log1p", libm::log1p),
            ("sin", libm::sin),
            ("cos", libm::cos),
            ("tan", libm::tan),
            ("asin", libm::asin),
            ("acos", libm::acos),
            ("atan", libm::atan),
            ("sinh", libm::sinh),
            ("cosh", libm::cosh),
            ("tanh", libm::tanh),
            ("asinh", libm::asinh),
            ("atanh", libm::atanh),
            ("cbrt", libm::cbrt),
            ("rsqrt", |x| 1.0 / x.sqrt()),
            ("erf", libm::erf),
            ("sigmoid", |x| if x < -700.0 { libm::exp(x) } else { 1.0 / (1.0 + libm::exp(-x)) }),
        ];
        functions.iter().for_each(|(name, f)| check(name, |x, _| f(x), &one));
        // libm's has a number for some below 1.
        let above_1: Vec<_> = one.iter().copied().filter(|[x, _]| *x >= 1.0).collect();
        check("acosh", |x, _| libm::acosh(x), &above_1);
        let two = pairs(8192);
        check("pow", libm::pow, &two);
        check("atan2", libm::atan2, &two);
        check("hypot", libm::hypot, &two);
    }

    #[test]
    fn bounds_of_16_bits_follow_from_those_of_f32() {
        let exp = Function::named("exp").unwrap();
        let single = exp.bound::<f32>(Family::Cpu);
        assert_eq!(exp.bound::<f16>(Family::Cpu), 0.5 + single / 8192.0);
        assert_eq!(exp.bound::<bf16>(Family::Cpu), 0.5 + single / 65536.0);
    }

    #[test]
    fn names_are_unique_and_families_follow_from_devices() {
        assert!(FUNCTIONS.iter().all(|f| std::ptr::eq(f, Function::named(f.name).unwrap())));
        let families =
            ["interp", "interp:fast:7", "interp:gpu-code", "cpu", "cuda:1", "wgpu:0"].map(Family::of);
        use Family::{Cpu, Cuda, Interp, Wgpu};
        assert_eq!(families, [Interp, Interp, Cuda, Cpu, Cuda, Wgpu]);
    }
}
