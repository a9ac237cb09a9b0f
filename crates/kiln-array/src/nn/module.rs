//! Modules: structs of parameters with names.

use crate::grad::Parameters;
use crate::node::Array;
use kiln_ir::Scalar;
use kiln_runtime::Device;
use std::fmt::Write as _;

/// A struct whose arrays are parameters with names, by `#[derive(Module)]`.
///
/// A field is an [`Array`], a module, a `Vec`, an `Option` or an array of such, or a setting: a
/// number, a `bool`, a text. Names are those of fields and indices with points between.
///
/// ```
/// use kiln_array::nn::{Linear, Key};
/// use kiln_array::{Array, Module};
///
/// #[derive(Module)]
/// # #[kiln(crate = kiln_array)]
/// struct Perceptron {
///     layers: Vec<Linear>,
///     scale: f64,
/// }
///
/// impl Perceptron {
///     fn forward(&self, x: &Array) -> Array {
///         self.layers.iter().fold(x * self.scale, |x, layer| layer.forward(&x).relu())
///     }
/// }
///
/// let device = kiln_runtime::Device::open("interp")?;
/// let [one, two] = Key::new(42).split();
/// let layers = vec![Linear::new(&device, one, 4, 3), Linear::new(&device, two, 3, 2)];
/// let net = Perceptron { layers, scale: 0.5 };
/// let names: Vec<String> = net.parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]);
/// assert_eq!(net.parameter_count(), 4 * 3 + 3 + 3 * 2 + 2);
/// assert_eq!(net.forward(&Array::ones(&device, kiln_array::Scalar::F32, &[5, 4])).shape(), [5, 2]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a module",
    note = "derive `Module` for it, or write `#[module(skip)]` above the field if it has no parameters"
)]
pub trait Module: Parameters {
    /// Visits each parameter, in the order of [`Parameters::map`].
    ///
    /// ```
    /// # use kiln_array::nn::{Key, Linear, Module, Visitor};
    /// let layer = Linear::new(&kiln_runtime::Device::open("interp")?, Key::new(1), 3, 2);
    /// let mut shapes = Vec::new();
    /// Visitor::walk(&[layer.clone(), layer], &mut |name, parameter| {
    ///     shapes.push((name.to_owned(), parameter.shape().to_vec()));
    /// });
    /// assert_eq!(shapes[2..], [("1.weight".to_owned(), vec![2, 3]), ("1.bias".to_owned(), vec![2])]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    fn visit(&self, visitor: &mut Visitor<'_>);

    /// The parameters with their names, in the order of the fields.
    fn parameters(&self) -> Vec<(String, Array)> {
        let mut all = Vec::new();
        Visitor::walk(self, &mut |name, parameter| all.push((name.to_owned(), parameter.clone())));
        all
    }

    /// The number of elements of all parameters.
    fn parameter_count(&self) -> usize {
        let mut count = 0;
        Visitor::walk(self, &mut |_, parameter| count += parameter.len());
        count
    }

    /// The module with its floats in another element type. Integers stay.
    ///
    /// ```
    /// # use kiln_array::nn::{Key, Linear, Module};
    /// # use kiln_array::Scalar;
    /// let layer = Linear::new(&kiln_runtime::Device::open("interp")?, Key::new(1), 3, 2);
    /// assert_eq!(layer.cast(Scalar::BF16).weight.dtype(), Scalar::BF16);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    fn cast(&self, dtype: Scalar) -> Self
    where
        Self: Sized,
    {
        self.map(&mut |parameter| super::cast_float(parameter, dtype))
    }

    /// The module on another device.
    ///
    /// ```
    /// # use kiln_array::nn::{Key, Linear, Module};
    /// let [interp, cpu] = ["interp", "cpu"].map(kiln_runtime::Device::open);
    /// let (interp, cpu) = (interp?, cpu?);
    /// let layer = Linear::new(&interp, Key::new(1), 3, 2);
    /// let moved = layer.to_device(&cpu);
    /// assert_eq!(moved.weight.device(), Some(&cpu));
    /// assert_eq!(moved.weight.to_vec::<f32>()?, layer.weight.to_vec::<f32>()?);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    fn to_device(&self, device: &Device) -> Self
    where
        Self: Sized,
    {
        self.map(&mut |parameter| parameter.to_device(device))
    }
}

/// The name of the parameter that is visited after so many others.
pub(super) fn name_of(module: &impl Module, at: usize) -> Option<String> {
    module.parameters().into_iter().nth(at).map(|(name, _)| name)
}

/// Goes through a module's parameters and knows their names.
///
/// ```
/// use kiln_array::nn::{Key, Linear, Module, Visitor};
/// use kiln_array::{Array, Parameters};
///
/// /// A module with a name of its own for its layer.
/// #[derive(Clone)]
/// struct Tied {
///     layer: Linear,
/// }
///
/// impl Parameters for Tied {
///     fn map(&self, f: &mut dyn FnMut(&Array) -> Array) -> Tied {
///         Tied { layer: self.layer.map(f) }
///     }
/// }
///
/// impl Module for Tied {
///     fn visit(&self, visitor: &mut Visitor<'_>) {
///         visitor.field("both", &self.layer);
///     }
/// }
///
/// let device = kiln_runtime::Device::open("interp")?;
/// let tied = Tied { layer: Linear::new(&device, Key::new(1), 3, 3) };
/// let mut names = Vec::new();
/// Visitor::walk(&tied, &mut |name, _| names.push(name.to_owned()));
/// assert_eq!(names, ["both.weight", "both.bias"]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
pub struct Visitor<'a> {
    name: String,
    f: &'a mut dyn FnMut(&str, &Array),
}

impl Visitor<'_> {
    /// Calls a function with the name of each parameter of a module, and with the parameter.
    pub fn walk<M: Module + ?Sized>(module: &M, f: &mut dyn FnMut(&str, &Array)) {
        module.visit(&mut Visitor { name: String::new(), f });
    }

    /// Visits a field of this name.
    pub fn field<M: Module + ?Sized>(&mut self, name: impl std::fmt::Display, of: &M) {
        let length = self.name.len();
        let point = if length == 0 { "" } else { "." };
        // Writing to a `String` does not fail.
        let _ = write!(self.name, "{point}{name}");
        of.visit(self);
        self.name.truncate(length);
    }
}

impl Module for Array {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        (visitor.f)(&visitor.name, self);
    }
}

impl<M: Module> Module for Vec<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.iter().enumerate().for_each(|(index, part)| visitor.field(index, part));
    }
}

impl<M: Module, const N: usize> Module for [M; N] {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.iter().enumerate().for_each(|(index, part)| visitor.field(index, part));
    }
}

impl<M: Module> Module for Option<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        if let Some(part) = self {
            part.visit(visitor);
        }
    }
}

impl<M: Module> Parameters for Option<M> {
    fn map(&self, f: &mut dyn FnMut(&Array) -> Array) -> Option<M> {
        self.as_ref().map(|part| part.map(f))
    }

    fn parameter_name(&self, at: usize) -> Option<String> {
        self.as_ref()?.parameter_name(at)
    }
}

/// Settings are modules without parameters.
macro_rules! settings {
    ($($t:ty)*) => {$(
        impl Parameters for $t {
            fn map(&self, _: &mut dyn FnMut(&Array) -> Array) -> $t {
                self.clone()
            }
        }

        impl Module for $t {
            fn visit(&self, _: &mut Visitor<'_>) {}
        }
    )*};
}
settings!(bool i32 u32 i64 u64 usize isize f32 f64 String &'static str Scalar Device);

/// Implements `Module` as the derive does, which names another crate.
macro_rules! implement_module {
    ($name:ident { $($parameter:ident)* } $($setting:ident)*) => {
        impl $crate::grad::Parameters for $name {
            fn map(&self, f: &mut dyn FnMut(&$crate::node::Array) -> $crate::node::Array) -> $name {
                $name {
                    $($parameter: $crate::grad::Parameters::map(&self.$parameter, f),)*
                    $($setting: self.$setting,)*
                }
            }

            fn parameter_name(&self, at: usize) -> Option<String> {
                $crate::nn::module::name_of(self, at)
            }
        }

        impl $crate::nn::module::Module for $name {
            fn visit(&self, visitor: &mut $crate::nn::module::Visitor<'_>) {
                $(visitor.field(stringify!($parameter), &self.$parameter);)*
            }
        }
    };
}
pub(super) use implement_module;
