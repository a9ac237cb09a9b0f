//! Every epilogue, with the element types of a product, as a [`Finish`]: the launches that name
//! them.

use super::epilogue::{Epilogue, Identity};
use super::factor::{Factor, Unit};
use super::finish::{Factors, Finish, OnTensorCores, Tile, Types};
use super::hopper::{self, MatmulPlan};
use super::{plain, rows, splits};
use kiln_lang::Precision;
use kiln_lang::prelude::*;
use kiln_runtime::{DynTensor, Result};
use std::any::TypeId;
use std::marker::PhantomData;

/// The launches of a product of `T` by `U` that gives `O`.
pub(super) struct Launches<T, U, O, E> {
    epilogue: E,
    types: PhantomData<(T, U, O)>,
}

impl<T, U, O, E> Launches<T, U, O, E> {
    pub(super) fn new(epilogue: E) -> Launches<T, U, O, E> {
        Launches { epilogue, types: PhantomData }
    }
}

impl<T, U, O, E> Finish for Launches<T, U, O, E>
where
    T: Factor,
    U: Factor<Sum = T::Sum, Family = T::Family>,
    O: Numeric,
    E: Epilogue<T::Sum>,
{
    fn types(&self) -> Types {
        Types { factors: [T::SCALAR, U::SCALAR], unit: T::UNIT, sum: T::Sum::SCALAR, result: O::SCALAR }
    }

    fn is_identity(&self) -> bool {
        TypeId::of::<E>() == TypeId::of::<Identity>()
    }

    fn check(&self, result: [usize; 3]) -> Result<()> {
        Epilogue::check(&self.epilogue, result)
    }

    fn tiles(
        &self,
        (a, b): Factors<'_>,
        c: &mut DynTensor,
        precision: Precision,
        (rows, columns, depth): Tile,
        [first_row, first_product]: [i64; 2],
        grid: [u32; 3],
    ) -> Result<()> {
        let (device, shared) = (a.device(), [a.shape()[0] == 1, b.shape()[0] == 1]);
        let (x, y, c, epilogue) =
            (a.downcast_ref()?, b.downcast_ref()?, c.downcast_mut()?, self.epilogue.clone());
        plain::kernels::matmul::<T, U, O, E>(
            x,
            y,
            c,
            epilogue,
            first_row,
            first_product,
            shared,
            precision,
            rows,
            columns,
            depth,
        )
        .grid(grid)
        .launch(device)
    }

    fn on_tensor_cores(&self) -> Option<&dyn OnTensorCores> {
        // A constant by itself: the kernels for tensor cores are not compiled for other types.
        if const { matches!(T::UNIT, Unit::None | Unit::Float64) } { None } else { Some(self) }
    }
}

impl<T, U, O, E> OnTensorCores for Launches<T, U, O, E>
where
    T: Factor,
    U: Factor<Sum = T::Sum, Family = T::Family>,
    O: Numeric,
    E: Epilogue<T::Sum>,
{
    fn gives_f32(&self) -> bool {
        TypeId::of::<E::Out>() == TypeId::of::<f32>()
    }

    fn transposed(&self) -> Box<dyn OnTensorCores> {
        Box::new(Launches::<U, T, O, E>::new(Epilogue::transposed(self.epilogue.clone())))
    }

    fn rows(&self, (x, v): Factors<'_>, y: &mut DynTensor) -> Result<()> {
        rows::multiply::<T, U, O>(x.downcast_ref()?, v.downcast_ref()?, y.downcast_mut()?, x.device())
    }

    fn hopper(&self, (a, b): Factors<'_>, c: &mut DynTensor, plan: MatmulPlan, grid: [u32; 3]) -> Result<()> {
        let (x, y, c) = (a.downcast_ref()?, b.downcast_ref()?, c.downcast_mut()?);
        hopper::matmul::<T, U, O, E>(x, y, c, self.epilogue.clone(), plan).grid(grid).launch(a.device())
    }

    fn hopper_parts(
        &self,
        (a, b): Factors<'_>,
        parts: &mut DynTensor,
        plan: MatmulPlan,
        grid: [u32; 3],
    ) -> Result<()> {
        let (x, y, parts) = (a.downcast_ref()?, b.downcast_ref()?, parts.downcast_mut()?);
        hopper::matmul::<T, U, T::Sum, Identity>(x, y, parts, Identity, plan).grid(grid).launch(a.device())
    }

    fn stream_k(
        &self,
        (a, b): Factors<'_>,
        c: &mut DynTensor,
        (parts, signals): (&mut DynTensor, &mut DynTensor),
        plan: MatmulPlan,
        grid: [u32; 3],
    ) -> Result<()> {
        let (x, y, c) = (a.downcast_ref()?, b.downcast_ref()?, c.downcast_mut()?);
        let (parts, signals) = (parts.downcast_mut()?, signals.downcast_mut()?);
        hopper::stream_k::<T, U, O, E>(x, y, c, parts, signals, self.epilogue.clone(), plan)
            .grid(grid)
            .launch(a.device())
    }

    fn add_up(&self, parts: &DynTensor, c: &mut DynTensor, splits: usize) -> Result<()> {
        splits::add_up::<T::Sum, O, E>(
            parts.downcast_ref()?,
            c.downcast_mut()?,
            self.epilogue.clone(),
            splits,
        )
    }
}
