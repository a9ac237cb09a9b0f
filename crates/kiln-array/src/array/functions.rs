//! Functions of each element.

use super::arithmetic::checked_class;
use super::create::checked_type;
use crate::dtype::{Kind, float_of, kind};
use crate::error::Site;
use crate::node::{Array, Made};
use crate::op::Op;
use crate::shape::Extents;
use kiln_ir::{Literal, MathFn, Scalar, UnaryOp};
use std::panic::Location;

/// A function of each element.
pub(crate) fn unary(op: UnaryOp, x: &Array, site: Site) -> Array {
    Array::record(&[x], site, || {
        let of = Op::Unary(op);
        checked_class(of.name(), op.info().class, x.dtype(), site)?;
        Ok(Made { op: of, dtype: op.result(x.dtype()), shape: Extents::from_slice(x.shape()) })
    })
}

impl Array {
    /// The elements as floats in which a function of several operations is computed, and the type
    /// of its result: 16-bit floats are computed in f32, so that they round once.
    #[track_caller]
    pub(super) fn widened(&self) -> (Array, Scalar) {
        let dtype = float_of(self.dtype());
        (self.cast(dtype.accumulator()), dtype)
    }
}

/// √(1 - x²).
#[track_caller]
fn other_leg(x: &Array) -> Array {
    let below: Array = 1.0 - x;
    (below * (x + 1.0)).sqrt()
}

/// A magnitude whose power of e is finite, and so large that e^-x adds nothing to e^x.
const FAR: f64 = 80.0;

/// The number y of a magnitude of at most [`FAR`] that is nearest to x, and e^(|x| - |y|): of sinh
/// and cosh, those of x are that factor times those of y. e^x itself is infinite where they are not
/// yet. The difference is exact.
#[track_caller]
fn reduced(x: &Array) -> (Array, Array) {
    let zero = x.filled_like(Literal::zero(x.dtype()), Location::caller());
    // At the limit itself the slope is that of y: of equal numbers it is the first one's.
    let factor = zero.maximum(x.abs() - FAR).exp();
    (x.clip(-FAR, FAR), factor)
}

/// A function of floats: integers become f64 first.
fn of_floats(op: UnaryOp, x: &Array, site: Site) -> Array {
    unary(op, &x.cast_at(float_of(x.dtype()), site), site)
}

/// Rounding, which leaves integers as they are.
fn rounded(op: UnaryOp, x: &Array, site: Site) -> Array {
    if kind(x.dtype()) == Kind::Float { unary(op, x, site) } else { x.clone() }
}

macro_rules! functions {
    ($f:ident: $($(#[$doc:meta])* $name:ident $op:expr;)*) => {
        impl Array {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Array {
                $f($op, self, Location::caller())
            }
        )*}
    };
}

functions! {
    of_floats:
    /// e^x. Integers become f64 first, and bool f16, as for the functions below.
    exp UnaryOp::Math(MathFn::Exp);
    /// 2^x.
    exp2 UnaryOp::Exp2;
    /// The natural logarithm.
    log UnaryOp::Math(MathFn::Log);
    /// The logarithm to the base 2.
    log2 UnaryOp::Math(MathFn::Log2);
    /// ln(1 + x), also where x is small.
    log1p UnaryOp::Math(MathFn::Log1p);
    /// The sine, of radians.
    sin UnaryOp::Math(MathFn::Sin);
    /// The cosine, of radians.
    cos UnaryOp::Math(MathFn::Cos);
    /// The hyperbolic tangent.
    tanh UnaryOp::Math(MathFn::Tanh);
    /// The error function.
    erf UnaryOp::Math(MathFn::Erf);
    /// 1 / (1 + e^-x).
    sigmoid UnaryOp::Math(MathFn::Sigmoid);
    /// The square root.
    sqrt UnaryOp::Sqrt;
    /// 1 / sqrt(x).
    rsqrt UnaryOp::Rsqrt;
    /// 1 / x.
    recip UnaryOp::Recip;
}

functions! {
    rounded:
    /// The greatest whole number that is not above x. Integers stay as they are, as below.
    floor UnaryOp::Floor;
    /// The least whole number that is not below x.
    ceil UnaryOp::Ceil;
    /// The nearest whole number; of two the even one.
    round UnaryOp::Round;
    /// The whole number towards zero.
    trunc UnaryOp::Trunc;
}

functions! {
    unary:
    /// The magnitude.
    abs UnaryOp::Abs;
}

impl Array {
    /// The elements in another type, as Rust's `as` converts them: floats to integers towards zero
    /// and within range, NaN to 0, everything but 0 to true.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.7f32, -1.7], &[2]);
    /// assert_eq!(x.cast(kiln_ir::Scalar::I32).to_vec::<i32>()?, [1, -1]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn cast(&self, dtype: Scalar) -> Array {
        self.cast_at(dtype, Location::caller())
    }

    pub(crate) fn cast_at(&self, dtype: Scalar, site: Site) -> Array {
        if self.dtype() == dtype {
            return self.clone();
        }
        Array::record(&[self], site, || {
            checked_type("cast", dtype, site)?;
            Ok(Made { op: Op::Cast, dtype, shape: Extents::from_slice(self.shape()) })
        })
    }

    /// e^x - 1, also where x is small.
    #[track_caller]
    pub fn expm1(&self) -> Array {
        // Near zero by e^x - 1 = 2 t / (1 - t) with t = tanh(x / 2), which is no difference of
        // nearly equal numbers.
        let (x, dtype) = self.widened();
        let t = (x.clip(-1.0, 1.0) * 0.5).tanh();
        let (near, far) = (&t * 2.0 / (1.0 - &t), x.exp() - 1.0);
        near.where_(&x.abs().less(1.0), &far).cast(dtype)
    }

    /// The logarithm to the base 10.
    #[track_caller]
    pub fn log10(&self) -> Array {
        let (x, dtype) = self.widened();
        (x.log2() * std::f64::consts::LOG10_2).cast(dtype)
    }

    /// The tangent, of radians.
    #[track_caller]
    pub fn tan(&self) -> Array {
        let (x, dtype) = self.widened();
        (x.sin() / x.cos()).cast(dtype)
    }

    /// The angle between -π/2 and π/2 with this sine, in radians.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f64, -0.5], &[2]).asin().to_vec::<f64>()?;
    /// assert!((x[0] - std::f64::consts::FRAC_PI_2).abs() < 1e-12);
    /// assert!((x[1] + std::f64::consts::FRAC_PI_6).abs() < 1e-12);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn asin(&self) -> Array {
        let (x, dtype) = self.widened();
        x.atan2(other_leg(&x)).cast(dtype)
    }

    /// The angle between 0 and π with this cosine, in radians.
    #[track_caller]
    pub fn acos(&self) -> Array {
        let (x, dtype) = self.widened();
        other_leg(&x).atan2(&x).cast(dtype)
    }

    /// The angle between -π/2 and π/2 with this tangent, in radians.
    #[track_caller]
    pub fn atan(&self) -> Array {
        let (x, dtype) = self.widened();
        x.atan2(1.0).cast(dtype)
    }

    /// The hyperbolic sine.
    #[track_caller]
    pub fn sinh(&self) -> Array {
        let (x, dtype) = self.widened();
        // Near zero by 2 t / (1 - t²) with t = tanh(x / 2), which is no difference of nearly equal
        // numbers.
        let t = (x.clip(-1.0, 1.0) * 0.5).tanh();
        let near = &t * 2.0 / (1.0 - t.square());
        let (y, factor) = reduced(&x);
        let far = (y.exp() - (-&y).exp()) * 0.5 * factor;
        near.where_(&x.abs().less(1.0), &far).cast(dtype)
    }

    /// The hyperbolic cosine.
    #[track_caller]
    pub fn cosh(&self) -> Array {
        let (x, dtype) = self.widened();
        let (y, factor) = reduced(&x);
        ((y.exp() + (-&y).exp()) * 0.5 * factor).cast(dtype)
    }

    /// Whether each element is a number, neither infinite nor NaN.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f32, f32::INFINITY, f32::NAN], &[3]);
    /// assert_eq!(x.is_finite().to_vec::<bool>()?, [true, false, false]);
    /// assert_eq!(x.is_inf().to_vec::<bool>()?, [false, true, false]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn is_finite(&self) -> Array {
        match kind(self.dtype()) {
            Kind::Float => self.abs().less(f64::INFINITY),
            Kind::Bool | Kind::Integer => self.filled_like(Literal::bool(true), Location::caller()),
        }
    }

    /// Whether each element is infinite.
    #[track_caller]
    pub fn is_inf(&self) -> Array {
        match kind(self.dtype()) {
            Kind::Float => self.abs().equal(f64::INFINITY),
            Kind::Bool | Kind::Integer => self.filled_like(Literal::bool(false), Location::caller()),
        }
    }

    /// Whether each element is NaN.
    #[track_caller]
    pub fn is_nan(&self) -> Array {
        let site = Location::caller();
        match kind(self.dtype()) {
            Kind::Float => unary(UnaryOp::IsNan, self, site),
            Kind::Bool | Kind::Integer => self.filled_like(Literal::bool(false), site),
        }
    }

    /// -1, 0 or 1, as the sign is; NaN of NaN.
    #[track_caller]
    pub fn sign(&self) -> Array {
        let (above, below) = (self.greater(0), self.less(0));
        let sign = above.cast(self.dtype()) - below.cast(self.dtype());
        if kind(self.dtype()) == Kind::Float { self.where_(&self.is_nan(), &sign) } else { sign }
    }

    /// x · x.
    #[track_caller]
    pub fn square(&self) -> Array {
        self * self
    }

    /// The larger of x and 0.
    #[track_caller]
    pub fn relu(&self) -> Array {
        self.maximum(0)
    }

    /// x · sigmoid(x), also known as swish.
    #[track_caller]
    pub fn silu(&self) -> Array {
        let (x, dtype) = self.widened();
        (&x * x.sigmoid()).cast(dtype)
    }
}

impl std::ops::Neg for &Array {
    type Output = Array;

    /// The number of the other sign.
    #[track_caller]
    fn neg(self) -> Array {
        unary(UnaryOp::Neg, self, Location::caller())
    }
}

impl std::ops::Neg for Array {
    type Output = Array;

    #[track_caller]
    fn neg(self) -> Array {
        unary(UnaryOp::Neg, &self, Location::caller())
    }
}

impl std::ops::Not for &Array {
    type Output = Array;

    /// The other bool, or all bits inverted.
    #[track_caller]
    fn not(self) -> Array {
        unary(UnaryOp::Not, self, Location::caller())
    }
}

impl std::ops::Not for Array {
    type Output = Array;

    #[track_caller]
    fn not(self) -> Array {
        unary(UnaryOp::Not, &self, Location::caller())
    }
}
