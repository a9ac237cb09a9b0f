//! Comparisons, and choosing by them.

use super::arithmetic::{Operand, common_shape, paired};
use crate::dtype::promote;
use crate::error::{Error, Site};
use crate::node::{Array, Made};
use crate::op::Op;
use crate::shape::Extents;
use kiln_ir::{CompareOp, Scalar};
use std::panic::Location;

fn compare(op: CompareOp, a: &Array, b: &Array, site: Site) -> Array {
    let name = Op::Compare(op).name();
    // Of bools only equality is an operation: as numbers they have an order.
    let both_bool = promote(a.dtype(), b.dtype()) == Scalar::Bool;
    let ordered = !matches!(op, CompareOp::Eq | CompareOp::Ne);
    let dtype = (both_bool && ordered).then_some(Scalar::I32);
    match paired(name, a, b, dtype, site) {
        Err(error) => Array::failed(error, site),
        Ok([a, b]) => Array::record(&[&a, &b], site, || {
            let shape = Extents::from_slice(a.shape());
            Ok(Made { op: Op::Compare(op), dtype: Scalar::Bool, shape })
        }),
    }
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident $op:ident;)*) => {
        impl Array {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, other: impl Operand) -> Array {
                let site = Location::caller();
                compare(CompareOp::$op, self, &other.beside(self, site), site)
            }
        )*}
    };
}

comparisons! {
    /// Whether elements are equal. NaN is not equal to itself.
    equal Eq;
    /// Whether elements are not equal.
    not_equal Ne;
    /// Whether each element is less than another.
    less Lt;
    /// Whether each element is less than another, or equal.
    less_equal Le;
    /// Whether each element is greater than another.
    greater Gt;
    /// Whether each element is greater than another, or equal.
    greater_equal Ge;
}

impl Array {
    /// This array's elements where the condition is true, and the others' elsewhere.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[-2.0f32, 3.0], &[2]);
    /// let leaky = x.where_(&x.greater(0.0), &x * 0.5);
    /// assert_eq!(leaky.to_vec::<f32>()?, [-1.0, 3.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if the condition is not of bool, or if shapes do not broadcast.
    #[track_caller]
    pub fn where_(&self, condition: &Array, otherwise: impl Operand) -> Array {
        let site = Location::caller();
        let otherwise = otherwise.beside(self, site);
        let arrays = [condition, self, &otherwise];
        if let Some(error) = arrays.iter().find_map(|array| array.error()) {
            return Array::failed(error, site);
        }
        let shape = match common_shape("where", &arrays, site) {
            Ok(shape) => shape,
            Err(error) => return Array::failed(error, site),
        };
        let dtype = promote(self.dtype(), otherwise.dtype());
        let [yes, no] = [self, &otherwise].map(|array| array.cast_at(dtype, site).stretched(&shape, site));
        let stretched = condition.stretched(&shape, site);
        Array::record(&[&stretched, &yes, &no], site, || match condition.dtype() {
            Scalar::Bool => Ok(Made { op: Op::Select, dtype, shape }),
            dtype => {
                let hint = "the condition is an array of bool, such as `x.greater(0)`";
                Err(Error::Type { op: "where", dtype, hint, location: site })
            }
        })
    }
}
