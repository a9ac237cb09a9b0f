//! Every epilogue as a [`Finish`]: the launches that name it.

use super::epilogue::{Epilogue, Identity};
use super::factor::Factor;
use super::finish::{Factors, Finish, Tile};
use super::hopper::{self, MatmulPlan};
use super::{plain, splits};
use kiln_lang::Precision;
use kiln_lang::prelude::*;
use kiln_runtime::{Result, Tensor};
use std::any::TypeId;

impl<T, U, O, E> Finish<T, U, O> for E
where
    T: Factor,
    U: Factor<Sum = T::Sum, Family = T::Family>,
    O: Numeric,
    E: Epilogue<T::Sum>,
{
    fn is_identity(&self) -> bool {
        TypeId::of::<E>() == TypeId::of::<Identity>()
    }

    fn check(&self, result: [usize; 3]) -> Result<()> {
        Epilogue::check(self, result)
    }

    fn gives_f32(&self) -> bool {
        TypeId::of::<E::Out>() == TypeId::of::<f32>()
    }

    fn transposed(&self) -> Box<dyn Finish<U, T, O>> {
        Box::new(Epilogue::transposed(self.clone()))
    }

    fn tiles(
        &self,
        (a, b): Factors<'_, T, U>,
        c: &mut Tensor<O, 3>,
        precision: Precision,
        (rows, columns, depth): Tile,
    ) -> Result<()> {
        let (device, shared) = (a.device().clone(), [a.shape()[0] == 1, b.shape()[0] == 1]);
        let epilogue = self.clone();
        plain::kernels::matmul::<T, U, O, E>(a, b, c, epilogue, shared, precision, rows, columns, depth)
            .launch(&device)
    }

    fn hopper(
        &self,
        (a, b): Factors<'_, T, U>,
        c: &mut Tensor<O, 3>,
        plan: MatmulPlan,
        grid: [u32; 3],
    ) -> Result<()> {
        let device = a.device().clone();
        hopper::matmul::<T, U, O, E>(a, b, c, self.clone(), plan).grid(grid).launch(&device)
    }

    fn stream_k(
        &self,
        (a, b): Factors<'_, T, U>,
        c: &mut Tensor<O, 3>,
        (parts, signals): (&mut Tensor<T::Sum, 1>, &mut Tensor<u32, 1>),
        plan: MatmulPlan,
        grid: [u32; 3],
    ) -> Result<()> {
        let device = a.device().clone();
        hopper::stream_k::<T, U, O, E>(a, b, c, parts, signals, self.clone(), plan).grid(grid).launch(&device)
    }

    fn add_up(&self, parts: &Tensor<T::Sum, 3>, c: &mut Tensor<O, 3>, splits: usize) -> Result<()> {
        splits::add_up(parts, c, self.clone(), splits)
    }
}
