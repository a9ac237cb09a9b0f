//! Tensors whose elements are structs: a tensor for each field.

use super::{DynTensor, Tensor};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::tensor_params::pack;
use kiln_lang::param::{ArgSink, KernelParam, ParamDecl, SpecKey};
use kiln_lang::{Elem, Record, RecordView, RecordViewMut};
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

/// A tensor of rank `R` whose elements are a struct with `#[derive(Record)]`: one tensor for each
/// field, of one shape.
///
/// A kernel takes it as `&Records<B, R>` or `&mut Records<B, R>`, reads elements as structs of
/// device values and writes them back. Each field is a [`Tensor`] that other kernels take.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Device, Error, Records};
///
/// #[derive(Clone, Copy, Debug, PartialEq, Record)]
/// #[kiln(crate = kiln_runtime)]
/// struct Particle {
///     x: f32,
///     v: f32,
///     hits: u32,
/// }
///
/// /// A step of each particle; who leaves the box is thrown back.
/// #[kernel(crate = kiln_runtime)]
/// fn step(particles: &mut Records<Particle, 1>, dt: Val<f32>) {
///     let i = thread_index();
///     let mut p = particles.get_or(i, Particle { x: 0.0, v: 0.0, hits: 0 });
///     p.x += p.v * dt;
///     if p.x > 1.0 {
///         p = ParticleVal { x: p.x, v: -p.v, hits: p.hits + 1 };
///     }
///     particles.set_or_skip(i, p);
/// }
///
/// let device = Device::open("interp")?;
/// let data = [Particle { x: 0.0, v: 1.0, hits: 0 }, Particle { x: 0.75, v: 1.0, hits: 0 }];
/// let mut particles = device.records(&data, [2])?;
/// step(&mut particles, 0.5).grid([1]).block([32]).launch(&device)?;
/// let expected = [Particle { x: 0.5, ..data[0] }, Particle { x: 1.25, v: -1.0, hits: 1 }];
/// assert_eq!(particles.to_vec()?, expected);
/// assert_eq!(particles.field::<u32>("hits")?.to_vec()?, [0, 1]);
/// # Ok::<(), Error>(())
/// ```
///
/// ```
/// # use kiln_lang::prelude::*;
/// # use kiln_runtime::{Device, Error, Records};
/// # #[derive(Clone, Copy, Record)]
/// # #[kiln(crate = kiln_runtime)]
/// # struct Pixel { red: u8, green: u8 }
/// let image: Records<Pixel, 2> = Device::open("interp")?.uninit_records([480, 640])?;
/// assert_eq!((image.shape(), image.len(), image.is_empty()), ([480, 640], 480 * 640, false));
/// # Ok::<(), Error>(())
/// ```
pub struct Records<B, const R: usize> {
    /// One for each field, in the order of the struct.
    fields: Vec<DynTensor>,
    record: PhantomData<fn() -> B>,
}

impl Device {
    /// Records with the given elements, in row-major order.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_runtime::{Device, Error};
    ///
    /// #[derive(Clone, Copy, Debug, PartialEq, Record)]
    /// # #[kiln(crate = kiln_runtime)]
    /// struct Pixel {
    ///     red: u8,
    ///     green: u8,
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// let pixels = [Pixel { red: 1, green: 2 }, Pixel { red: 3, green: 4 }];
    /// let image = device.records(&pixels, [1, 2])?;
    /// assert_eq!((image.shape(), image.len(), image.is_empty()), ([1, 2], 2, false));
    /// assert_eq!(image.to_vec()?, pixels);
    /// assert!(device.records(&pixels, [3]).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`] if their number is not the shape's; out of memory.
    #[track_caller]
    pub fn records<B: Record, const R: usize>(&self, data: &[B], shape: [usize; R]) -> Result<Records<B, R>> {
        let mut records = self.uninit_records(shape)?;
        records.write(data)?;
        Ok(records)
    }

    /// Records with no contents yet: reading them before a kernel or a write filled them is an
    /// error.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_runtime::{Device, Error, Records};
    /// # #[derive(Clone, Copy, Record)]
    /// # #[kiln(crate = kiln_runtime)]
    /// # struct Pixel { red: u8, green: u8 }
    /// let image: Records<Pixel, 2> = Device::open("interp")?.uninit_records([480, 640])?;
    /// assert_eq!(image.shape(), [480, 640]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Out of memory; a shape that cannot be addressed.
    #[track_caller]
    pub fn uninit_records<B: Record, const R: usize>(&self, shape: [usize; R]) -> Result<Records<B, R>> {
        let mut fields = Vec::with_capacity(B::FIELDS.len());
        for field in B::FIELDS {
            fields.push(DynTensor::uninit(self, field.elem, &shape)?);
        }
        Ok(Records { fields, record: PhantomData })
    }
}

impl<B: Record, const R: usize> Records<B, R> {
    /// Records of a tensor for each field, in the order of the struct.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_runtime::{Device, Error, Records};
    /// # #[derive(Clone, Copy, Debug, PartialEq, Record)]
    /// # #[kiln(crate = kiln_runtime)]
    /// # struct Pixel { red: u8, green: u8 }
    /// let device = Device::open("interp")?;
    /// let planes = [[1u8, 2], [3, 4]].map(|plane| device.tensor(&plane, [2]));
    /// let [red, green] = planes.map(|plane| plane.map(|plane| plane.into_dyn()));
    /// let pixels = Records::<Pixel, 1>::of_fields(vec![red?, green?])?;
    /// assert_eq!(pixels.to_vec()?, [Pixel { red: 1, green: 3 }, Pixel { red: 2, green: 4 }]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Value`] if there is not one for each field, all on one device; [`Error::DataType`]
    /// for one of another type or rank, [`Error::Shape`] for one of another shape than the first.
    #[track_caller]
    pub fn of_fields(fields: Vec<DynTensor>) -> Result<Records<B, R>> {
        if fields.len() != B::FIELDS.len() {
            return Err(Error::Value {
                what: "tensors of records".into(),
                expected: format!("one for each of {} fields", B::FIELDS.len()),
                given: fields.len().to_string(),
            });
        }
        let location = Location::caller();
        for (tensor, field) in fields.iter().zip(B::FIELDS) {
            let (found, shape) = (tensor.dtype(), tensor.shape().to_vec());
            if found != field.elem || shape.len() != R {
                return Err(Error::DataType { expected: field.elem, rank: Some(R), found, shape, location });
            }
            if shape != fields[0].shape() {
                let what = format!("field {} of records", field.name);
                return Err(Error::Shape { what, expected: fields[0].shape().to_vec(), given: shape });
            }
            if tensor.device().id() != fields[0].device().id() {
                return Err(Error::Value {
                    what: format!("the device of field {} of records", field.name),
                    expected: fields[0].device().id().to_owned(),
                    given: tensor.device().id().to_owned(),
                });
            }
        }
        Ok(Records { fields, record: PhantomData })
    }

    /// The extents, outermost first.
    pub fn shape(&self) -> [usize; R] {
        let shape = self.fields.first().map_or(&[][..], |field| field.shape());
        std::array::from_fn(|axis| shape.get(axis).copied().unwrap_or(0))
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape().iter().product()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, in row-major order.
    ///
    /// # Errors
    /// What kernels that wrote them did wrong; elements that nothing wrote.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<B>> {
        let mut columns = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            columns.push(field.to_bytes()?);
        }
        Ok((0..self.len()).map(|index| B::at(&columns, index)).collect())
    }

    /// Replaces the elements.
    ///
    /// # Errors
    /// [`Error::Length`] if their number is another one.
    #[track_caller]
    pub fn write(&mut self, data: &[B]) -> Result<()> {
        if data.len() != self.len() {
            let (expected, shape) = (self.len(), self.shape().to_vec());
            return Err(Error::Length { given: data.len(), expected, shape });
        }
        let mut columns = vec![Vec::new(); self.fields.len()];
        B::append(data, &mut columns);
        for (field, column) in self.fields.iter_mut().zip(&columns) {
            field.write_bytes(column)?;
        }
        Ok(())
    }

    /// The tensor of a field, by its name.
    ///
    /// # Errors
    /// [`Error::Value`] for a name of no field, [`Error::DataType`] for another type.
    #[track_caller]
    pub fn field<T: Elem>(&self, name: &str) -> Result<&Tensor<T, R>> {
        self.fields[number::<B>(name)?].downcast_ref()
    }

    /// The tensor of a field, to be written.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_runtime::{Device, Error, Records};
    /// # #[derive(Clone, Copy, Debug, PartialEq, Record)]
    /// # #[kiln(crate = kiln_runtime)]
    /// # struct Pixel { red: u8, green: u8 }
    /// let mut pixels = Device::open("interp")?.records(&[Pixel { red: 1, green: 2 }], [1])?;
    /// pixels.field_mut::<u8>("green")?.write(&[9])?;
    /// assert_eq!(pixels.to_vec()?, [Pixel { red: 1, green: 9 }]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`field`](Self::field).
    #[track_caller]
    pub fn field_mut<T: Elem>(&mut self, name: &str) -> Result<&mut Tensor<T, R>> {
        self.fields[number::<B>(name)?].downcast_mut()
    }
}

/// The number of a field.
fn number<B: Record>(name: &str) -> Result<usize> {
    B::FIELDS.iter().position(|field| field.name == name).ok_or_else(|| Error::Value {
        what: "field of records".into(),
        expected: B::FIELDS.iter().map(|field| field.name).collect::<Vec<_>>().join(" or "),
        given: name.to_owned(),
    })
}

impl<B: Record, const R: usize> fmt::Debug for Records<B, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.fields).finish()
    }
}

impl<'k, B: Record, const R: usize> KernelParam for &'k Records<B, R> {
    type Arg = &'k Records<B, R>;
    type Traced = RecordView<B, R>;

    fn key(arg: &Self::Arg, key: &mut SpecKey) {
        arg.fields.iter().for_each(|field| key.word(field.fact_bits()));
    }

    fn declare(arg: &Self::Arg, name: &'static str, decl: &mut ParamDecl) -> RecordView<B, R> {
        decl.records(name, &mut |field| arg.fields[field].facts())
    }

    fn pack<'a>(arg: &'a Self::Arg, sink: &mut dyn ArgSink<'a>) {
        arg.fields.iter().for_each(|field| pack(field, false, sink));
    }
}

impl<'k, B: Record, const R: usize> KernelParam for &'k mut Records<B, R> {
    type Arg = &'k mut Records<B, R>;
    type Traced = RecordViewMut<B, R>;

    fn key(arg: &Self::Arg, key: &mut SpecKey) {
        arg.fields.iter().for_each(|field| key.word(field.fact_bits()));
    }

    fn declare(arg: &Self::Arg, name: &'static str, decl: &mut ParamDecl) -> RecordViewMut<B, R> {
        decl.records_mut(name, &mut |field| arg.fields[field].facts())
    }

    fn pack<'a>(arg: &'a Self::Arg, sink: &mut dyn ArgSink<'a>) {
        arg.fields.iter().for_each(|field| pack(field, true, sink));
    }
}
