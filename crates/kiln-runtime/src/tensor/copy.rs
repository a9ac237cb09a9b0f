//! Copies between tensors of any strides, on the device.
//!
//! A copy is a kernel over tiles of rows: the compiler lays a tile out for each of its sides, so
//! that a transposed copy reads and writes whole lines. It is made for an element type, a number
//! of axes and the extents of its tile, so few serve all. Axes that lie together on both sides are
//! one.

use super::dynamic::DynTensor;
use super::layout::{Dims, Layout};
use crate::dyn_kernel::DynKernel;
use crate::error::{Error, Result};
use crate::stream::Stream;
use kiln_ir::{Literal, MAX_VIEW_RANK, Scalar};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::panic::Location;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Elements of a tile.
const TILE: usize = 1024;
/// Elements of a tile along each of two axes, where the axis of adjacent elements is another one on
/// each side.
const SQUARE: usize = 32;

/// Kernels by element type and extents of the tile.
static KERNELS: LazyLock<Mutex<HashMap<(Scalar, Dims), DynKernel>>> = LazyLock::new(Mutex::default);

impl DynTensor {
    /// Overwrites the elements by those of another tensor of the same type and shape, whatever the
    /// strides of either. On one device that is a kernel, which the host does not wait for, and
    /// which a [`Graph`](crate::Graph) records; between two devices the elements go through the
    /// host.
    ///
    /// ```
    /// use kiln_ir::Scalar;
    /// use kiln_runtime::{Device, DynTensor};
    /// let device = Device::open("interp")?;
    /// let x = DynTensor::new(&device, &[1, 2, 3, 4, 5, 6], &[2, 3])?;
    /// let mut y = DynTensor::zeros(&device, Scalar::I32, &[4, 4])?;
    /// // A rectangle of `y`, whose rows are 4 elements apart.
    /// y.slice(0, 0..3)?.slice(1, 1..3)?.copy_from(&x.transpose())?;
    /// assert_eq!(y.to_vec::<i32>()?, [0, 1, 4, 0, 0, 2, 5, 0, 0, 3, 6, 0, 0, 0, 0, 0]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DataType`] and [`Error::Shape`] if type or shape differ; as of a launch if the two
    /// share memory, or the source was never written.
    #[track_caller]
    pub fn copy_from(&mut self, source: &DynTensor) -> Result<()> {
        self.copy_in(source, None)
    }

    /// As [`copy_from`](Self::copy_from), in a stream.
    ///
    /// ```
    /// use kiln_runtime::{Device, DynTensor};
    /// let device = Device::open("interp")?;
    /// let copies = device.stream()?;
    /// let x = DynTensor::new(&device, &[1.0, 2.0], &[2])?;
    /// let mut y = DynTensor::zeros(&device, x.dtype(), x.shape())?;
    /// y.copy_from_on(&x, &copies)?; // what uses `y` later waits for it
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`copy_from`](Self::copy_from).
    #[track_caller]
    pub fn copy_from_on(&mut self, source: &DynTensor, stream: &Stream) -> Result<()> {
        self.copy_in(source, Some(stream))
    }

    #[track_caller]
    fn copy_in(&mut self, source: &DynTensor, stream: Option<&Stream>) -> Result<()> {
        if source.shape() != self.shape() {
            let (expected, given) = (self.shape().to_vec(), source.shape().to_vec());
            return Err(Error::Shape { what: "copy_from".to_owned(), expected, given });
        }
        if source.dtype() != self.dtype() {
            return Err(source.wrong_type(self.dtype(), None, Location::caller()));
        }
        if self.is_empty() {
            return Ok(());
        }
        let joined = joined(self.layout(), source.layout());
        if self.device() != source.device() || joined[0].rank() > MAX_VIEW_RANK {
            return self.write_bytes(&source.to_bytes()?);
        }
        let device = self.device().clone();
        let [mut to, from] =
            [(&*self, &joined[0]), (source, &joined[1])].map(|(x, layout)| x.view(layout.clone()));
        let tile = tile_of(&joined);
        let programs = to.shape().iter().zip(&tile).map(|(extent, tile)| extent.div_ceil(*tile)).product();
        let kernel = kernel(self.dtype(), &tile)?;
        let mut launch = kernel.with([(&from).into(), (&mut to).into()]).grid([programs, 1, 1]);
        if let Some(stream) = stream {
            launch = launch.on(stream);
        }
        // SAFETY: each program stores to a box of its own, and the accesses of tiles stay inside of
        // the views.
        unsafe { launch.launch_unchecked(&device) }
    }
}

/// The layouts of both sides, of the same extents, with the axes joined that lie together on both.
fn joined(to: &Layout, from: &Layout) -> [Layout; 2] {
    let mut sides =
        [to, from].map(|side| Layout { offset: side.offset, shape: Dims::new(), strides: Dims::new() });
    for axis in 0..to.rank() {
        let extent = to.shape[axis];
        if extent == 1 {
            continue;
        }
        let strides = [to.strides[axis], from.strides[axis]];
        let lies_below = |(side, stride): (&Layout, usize)| side.strides.last() == Some(&(stride * extent));
        let together = sides.iter().zip(strides).all(lies_below);
        for (side, stride) in sides.iter_mut().zip(strides) {
            match (together, side.shape.last_mut(), side.strides.last_mut()) {
                (true, Some(outer), Some(step)) => (*outer, *step) = (*outer * extent, stride),
                _ => {
                    side.shape.push(extent);
                    side.strides.push(stride);
                }
            }
        }
    }
    for side in &mut sides {
        if side.shape.is_empty() {
            side.shape.push(1);
            side.strides.push(1);
        }
    }
    sides
}

/// The extents of a program's tile: powers of two.
fn tile_of([to, from]: &[Layout; 2]) -> Dims {
    let rank = to.rank();
    let mut tile = Dims::from_elem(1, rank);
    let up_to = |axis: usize, most: usize| to.shape[axis].next_power_of_two().min(most);
    let adjacent = |side: &Layout| side.strides.iter().rposition(|&stride| stride == 1).unwrap_or(rank - 1);
    let [first, second] = [adjacent(to), adjacent(from)];
    if first != second {
        (tile[first], tile[second]) = (up_to(first, SQUARE), up_to(second, SQUARE));
    }
    let order = [first].into_iter().chain((0..rank).rev().filter(|&axis| axis != first));
    for axis in order {
        let others = tile.iter().product::<usize>() / tile[axis];
        tile[axis] = tile[axis].max(up_to(axis, TILE / others));
    }
    tile
}

/// The kernel for elements of a type and a tile of these extents.
fn kernel(elem: Scalar, tile: &Dims) -> Result<DynKernel> {
    let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kernel) = kernels.get(&(elem, tile.clone())) {
        return Ok(kernel.clone());
    }
    let kernel = DynKernel::parse(&text(elem, tile))?;
    kernels.insert((elem, tile.clone()), kernel.clone());
    Ok(kernel)
}

/// The kernel's text. The last axis of tiles counts fastest.
fn text(elem: Scalar, tile: &[usize]) -> String {
    let rank = tile.len();
    let mut text = format!(
        "kernel @copy(%source: view<{elem}, {rank}, global>, %destination: mut view<{elem}, {rank}, global>) tile {{\n"
    );
    let mut line = |what: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {what}");
    };
    line("%left_last = program_id x : i64");
    line("%zero = const 0 : i64");
    let mut left = "left_last".to_owned();
    for axis in (0..rank).rev() {
        line(&format!("%tile{axis} = const {} : i64", tile[axis]));
        line(&format!("%below{axis} = const {} : i64", tile[axis] - 1));
        line(&format!("%extent{axis} = extent %destination axis {axis} : i64"));
        line(&format!("%up{axis} = add %extent{axis}, %below{axis} : i64"));
        line(&format!("%count{axis} = div %up{axis}, %tile{axis} : i64"));
        line(&format!("%at{axis} = rem %{left}, %count{axis} : i64"));
        line(&format!("%left{axis} = div %{left}, %count{axis} : i64"));
        line(&format!("%offset{axis} = mul %at{axis}, %tile{axis} : i64"));
        left = format!("left{axis}");
    }
    let list = |each: &dyn Fn(usize) -> String| (0..rank).map(each).collect::<Vec<_>>().join(", ");
    let (offsets, extents) = (list(&|axis| format!("%offset{axis}")), list(&|axis| tile[axis].to_string()));
    line(&format!("%padding = const {} : {elem}", Literal::zero(elem)));
    line(&format!("%elements = load %source[{offsets}] pad %padding : {elem}[{extents}]"));
    line(&format!("store %destination[{offsets}] = %elements"));
    text.push_str("}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(shape: &[usize], strides: &[usize]) -> Layout {
        Layout { offset: 0, shape: Dims::from_slice(shape), strides: Dims::from_slice(strides) }
    }

    #[test]
    fn axes_that_lie_together_are_one() {
        let of = |to: &Layout, from: &Layout| {
            let [to, from] = joined(to, from);
            assert_eq!(to.shape, from.shape);
            (to.shape.to_vec(), to.strides.to_vec(), from.strides.to_vec())
        };
        let dense = layout(&[2, 3, 4], &[12, 4, 1]);
        assert_eq!(of(&dense, &dense), (vec![24], vec![1], vec![1]));
        let pitched = layout(&[2, 3, 4], &[24, 8, 1]);
        assert_eq!(of(&dense, &pitched), (vec![6, 4], vec![4, 1], vec![8, 1]));
        let turned = layout(&[2, 3, 4], &[1, 2, 6]);
        assert_eq!(of(&dense, &turned), (vec![2, 3, 4], vec![12, 4, 1], vec![1, 2, 6]));
        let single = layout(&[1, 1], &[7, 9]);
        assert_eq!(of(&single, &single), (vec![1], vec![1], vec![1]));
    }

    #[test]
    fn tiles_reach_along_the_axes_of_adjacent_elements() {
        let of = |to: &Layout, from: &Layout| tile_of(&[to.clone(), from.clone()]).to_vec();
        let rows = layout(&[300, 500], &[500, 1]);
        assert_eq!(of(&rows, &rows), [2, 512]);
        assert_eq!(of(&rows, &layout(&[300, 500], &[1, 300])), [32, 32]);
        assert_eq!(of(&layout(&[5], &[3]), &layout(&[5], &[2])), [8]);
    }

    #[test]
    fn kernels_of_all_types_and_ranks_are_valid() {
        for elem in Scalar::ALL {
            for rank in 1..=MAX_VIEW_RANK {
                let tile = Dims::from_elem(2, rank);
                let kernel = DynKernel::parse(&text(elem, &tile));
                assert!(kernel.is_ok(), "{elem} {rank}: {kernel:?}");
            }
        }
    }
}
