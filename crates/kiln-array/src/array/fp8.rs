//! Products of floats through 8-bit floats.

use super::create::{checked_size, constant};
use super::functions::unary;
use super::product::is_transpose;
use super::reduce::reduce;
use crate::custom_kernel::kernel_at;
use crate::dtype::{Kind, kind};
use crate::error::{Error, Result, Site};
use crate::fp8::multiply;
use crate::grad::custom;
use crate::node::{Array, common_device};
use crate::shape::{Extents, count};
use kiln_ir::{Literal, ReduceOp, Scalar, UnaryOp};
use kiln_runtime::Device;
use std::panic::Location;

impl Array {
    /// The product `[…, k]` · `[k, n]` of floats, multiplied as 8-bit floats: a bf16 array
    /// `[…, n]`.
    ///
    /// Each factor has one f32 scale that maps its greatest magnitude to the largest number of E4M3
    /// (448), and is rounded to that format, to nearest even. The products are summed in f32,
    /// divided by the scales, and rounded to bf16. In the gradient the gradient of the result is of
    /// E5M2 (largest number 57344), and the other factor of E4M3 (Micikevicius and others, "FP8
    /// Formats for Deep Learning", 2022). The scales are those of the arrays at hand and depend on
    /// nothing before, and the device computes them.
    ///
    /// Rounding changes an element by up to 1/16 of itself in E4M3, and 1/8 in E5M2. One that is
    /// more than 2¹⁴ times smaller than its array's greatest magnitude (in E5M2: 2²⁹ times) changes
    /// by up to 2⁻¹⁸ of that (2⁻³²). A scale is at most 2¹²⁶, so arrays whose greatest magnitude is
    /// below 2⁻¹¹⁷ (2⁻¹¹⁰) lose more. If an element of a factor is infinite or NaN, the whole
    /// result is NaN.
    ///
    /// All shapes are multiplied so, by tensor cores where these take 8-bit floats: they keep some
    /// 13 bits of a sum of up to 128 products, and those sums are added up in f32. Elsewhere all
    /// sums are of f32, and nothing is faster than [`matmul`](Self::matmul). Under
    /// [`vmap`](crate::vmap) each array has scales of its own, and kernels are launched for each.
    ///
    /// ```
    /// # use kiln_array::{Array, Scalar, grad};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2]);
    /// let w = Array::new(&device, &[1.0f32, 0.0, 0.0, -1.0], &[2, 2]);
    /// let y = x.matmul_fp8(&w);
    /// assert_eq!(y.dtype(), Scalar::BF16);
    /// let relative = y.cast(Scalar::F32) / x.matmul(&w) - 1.0;
    /// assert!(relative.abs().max().item::<f32>()? < 1.0 / 16.0);
    /// let of_x = grad(|x| x.matmul_fp8(&w).cast(Scalar::F32).sum(), &x);
    /// assert_eq!(of_x.to_vec::<f32>()?, [1.0, -1.0, 1.0, -1.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if the left array has no axes, if the right one is no matrix, if the
    /// left one's last axis is not as long as the right one's first, if one is not of floats, or if
    /// they are on two devices.
    #[track_caller]
    pub fn matmul_fp8(&self, right: &Array) -> Array {
        let site = Location::caller();
        if let Some(error) = [self, right].into_iter().find_map(Array::error) {
            return Array::failed(error, site);
        }
        match checked(self, right, site) {
            Ok((device, shape)) => product(self, right, device.as_ref(), &shape, site),
            Err(error) => Array::failed(error, site),
        }
    }
}

/// The device of factors that can be multiplied, and the shape of their product.
fn checked(left: &Array, right: &Array, location: Site) -> Result<(Option<Device>, Extents)> {
    let op = "matmul_fp8";
    if let Some(of) = [left, right].into_iter().find(|x| kind(x.dtype()) != Kind::Float) {
        let hint = "it is for floats; cast first, or use `matmul`";
        return Err(Error::Type { op, dtype: of.dtype(), hint, location });
    }
    let refused = |problem: &str| {
        let problem = format!("shapes {:?} and {:?}: {problem}", left.shape(), right.shape());
        Err(Error::Shape { op, problem, location })
    };
    let ([before @ .., k], &[inner, n]) = (left.shape(), right.shape()) else {
        return refused("[…, k] and [k, n] are expected");
    };
    if *k != inner {
        return refused(&format!("the left one has {k} columns and the right one {inner} rows"));
    }
    let mut shape = Extents::from_slice(before);
    shape.push(n);
    checked_size(op, &shape, Scalar::BF16, location)?;
    Ok((common_device(&[left, right], op, location)?, shape))
}

/// The product of factors that fit each other.
fn product(left: &Array, right: &Array, device: Option<&Device>, shape: &[usize], site: Site) -> Array {
    let k = right.shape()[0];
    if let (Some(device), true) = (device, k == 0 || count(shape) == 0) {
        return constant(device, "matmul_fp8", Literal::zero(Scalar::BF16), shape, site);
    }
    let left = Matrix::new(&left.reshaped(&[left.len() / k, k], site), site);
    left.by_rows_of(&Matrix::new(right, site).transposed(), false).reshaped(shape, site)
}

/// A factor with its greatest magnitude, in f32.
struct Matrix {
    elements: Array,
    greatest: Array,
    site: Site,
}

impl Matrix {
    fn new(x: &Array, site: Site) -> Matrix {
        // What narrows takes floats of up to 32 bits.
        let elements = if x.dtype() == Scalar::F64 { x.cast_at(Scalar::F32, site) } else { x.clone() };
        let magnitudes = unary(UnaryOp::Abs, &elements.passed_without_gradient(site), site);
        // First of each row, as they lie in memory: by many programs, which may make the rows too.
        let along = if is_transpose(x) { 0 } else { 1 };
        let of_rows = reduce(ReduceOp::Max, &magnitudes, &[along], site);
        let greatest = reduce(ReduceOp::Max, &of_rows, &[0], site).cast_at(Scalar::F32, site);
        Matrix { elements, greatest, site }
    }

    fn transposed(&self) -> Matrix {
        let elements = self.elements.ordered(Extents::from_slice(&[1, 0]), self.site);
        Matrix { elements, greatest: self.greatest.clone(), site: self.site }
    }

    /// The product of `[m, k]` and the transpose of `[n, k]`. The left one is narrowed as gradients
    /// are, or as others.
    fn by_rows_of(&self, other: &Matrix, is_gradient: bool) -> Array {
        let (site, shape) = (self.site, [self.elements.shape()[0], other.elements.shape()[0]]);
        let inputs = [&self.elements, &other.elements, &self.greatest, &other.greatest];
        let y = kernel_at(&inputs, (Scalar::BF16, &shape), is_gradient, site, |&is_gradient, inputs, y| {
            multiply(is_gradient, inputs, y)
        });
        if let Some(error) = y.error() {
            return Array::failed(error, site);
        }
        custom(y, inputs.map(Array::clone).to_vec(), site, move |of, _, g| {
            let of_factor =
                |at: usize| Matrix { elements: of[at].clone(), greatest: of[at + 2].clone(), site };
            let (a, b, g) = (of_factor(0), of_factor(1), Matrix::new(g, site));
            // g b and gᵀ a.
            let of_a = g.by_rows_of(&b.transposed(), true);
            let of_b = g.transposed().by_rows_of(&a.transposed(), true);
            let zero = |of: &Array| of.filled_like(Literal::zero(of.dtype()), site);
            let [of_a, of_b] = [(of_a, &of[0]), (of_b, &of[1])].map(|(of, x)| of.cast_at(x.dtype(), site));
            vec![of_a, of_b, zero(&of[2]), zero(&of[3])]
        })
    }
}
