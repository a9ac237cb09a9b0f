//! What gradients are taken with respect to.

use crate::dtype::{Kind, kind};
use crate::node::Array;
use kiln_ir::Scalar;

/// Arrays in a structure: an [`Array`], an array, a `Vec` or an `Option` of such, a tuple of two to
/// six, or a struct with `#[derive(Module)]`.
///
/// A gradient has the structure of the parameters. Numbers, `bool` and texts in it are settings,
/// which stay.
///
/// ```
/// use kiln_array::{Array, Parameters};
/// let device = kiln_runtime::Device::open("interp")?;
/// let pair = (Array::scalar(&device, 1.0f32), vec![Array::scalar(&device, 2.0f32); 2]);
/// let (one, twos) = pair.map(&mut |x| x + 1.0);
/// assert_eq!((one.item::<f32>()?, twos[1].item::<f32>()?), (2.0, 3.0));
/// # Ok::<(), kiln_array::Error>(())
/// ```
pub trait Parameters {
    /// The structure with something else in the place of each array, in a fixed order.
    fn map(&self, f: &mut dyn FnMut(&Array) -> Array) -> Self;

    /// The name of the array that [`map`](Self::map) visits after so many others: fields and
    /// indices with points between, empty for an array by itself. `None` where it has no name.
    #[doc(hidden)]
    fn parameter_name(&self, _at: usize) -> Option<String> {
        None
    }
}

/// The name of an array of parts that have their positions as names.
fn name_by_position<'a, P: Parameters + 'a>(
    parts: impl IntoIterator<Item = &'a P>,
    at: usize,
) -> Option<String> {
    let mut before = 0;
    for (position, part) in parts.into_iter().enumerate() {
        let count = arrays(part).len();
        if at < before + count {
            return Some(named(position, &part.parameter_name(at - before)?));
        }
        before += count;
    }
    None
}

/// The name of an array in a part at a position.
fn named(position: usize, name: &str) -> String {
    if name.is_empty() { position.to_string() } else { format!("{position}.{name}") }
}

/// An array of a structure as errors call it: by its name, or else by its position.
pub(crate) fn called<P: Parameters>(of: &P, at: usize) -> String {
    match of.parameter_name(at) {
        Some(name) if name.is_empty() => "the parameter".to_owned(),
        Some(name) => format!("the parameter `{name}`"),
        None => format!("parameter {at}, counted from 0,"),
    }
}

/// The arrays of a structure, in its order.
pub(crate) fn arrays<P: Parameters>(of: &P) -> Vec<Array> {
    let mut all = Vec::new();
    of.map(&mut |array| {
        all.push(array.clone());
        array.clone()
    });
    all
}

/// A parameter in floats of another element type; `None` where it has that one, or is no float.
pub(crate) fn narrowed(parameter: &Array, dtype: Scalar) -> Option<Array> {
    let is_other = kind(parameter.dtype()) == Kind::Float && parameter.dtype() != dtype;
    is_other.then(|| parameter.cast(dtype))
}

impl Parameters for Array {
    fn map(&self, f: &mut dyn FnMut(&Array) -> Array) -> Array {
        f(self)
    }

    fn parameter_name(&self, _at: usize) -> Option<String> {
        Some(String::new())
    }
}

impl<P: Parameters, const N: usize> Parameters for [P; N] {
    fn map(&self, f: &mut dyn FnMut(&Array) -> Array) -> [P; N] {
        self.each_ref().map(|part| part.map(f))
    }

    fn parameter_name(&self, at: usize) -> Option<String> {
        name_by_position(self, at)
    }
}

impl<P: Parameters> Parameters for Vec<P> {
    fn map(&self, f: &mut dyn FnMut(&Array) -> Array) -> Vec<P> {
        self.iter().map(|part| part.map(f)).collect()
    }

    fn parameter_name(&self, at: usize) -> Option<String> {
        name_by_position(self, at)
    }
}

macro_rules! tuples {
    ($($($name:ident $at:tt)*;)*) => {$(
        impl<$($name: Parameters),*> Parameters for ($($name,)*) {
            fn map(&self, f: &mut dyn FnMut(&Array) -> Array) -> Self {
                ($(self.$at.map(f),)*)
            }

            fn parameter_name(&self, at: usize) -> Option<String> {
                let mut before = 0;
                $(
                    let count = arrays(&self.$at).len();
                    if at < before + count {
                        return Some(named($at, &self.$at.parameter_name(at - before)?));
                    }
                    before += count;
                )*
                _ = before;
                None
            }
        }
    )*};
}

tuples! {
    P 0 Q 1;
    P 0 Q 1 R 2;
    P 0 Q 1 R 2 S 3;
    P 0 Q 1 R 2 S 3 T 4;
    P 0 Q 1 R 2 S 3 T 4 U 5;
}
