//! Rules of operations that reach memory: through views, and below the tile level through
//! addresses.

use super::subject::{Outcome, Subject, require};
use crate::kernel::Level;
use crate::op::*;
use crate::types::{Scalar, Shape, Space, Type, ViewType};

pub(super) fn extent(s: &Subject, axis: u32) -> Outcome {
    let view = s.counts(1, 1)?.view()?;
    s.axis(axis, view.rank as usize)?;
    s.result(0, &Type::scalar(Scalar::I64))
}

pub(super) fn alloc(s: &Subject, space: Space, elem: Scalar, shape: &Shape) -> Outcome {
    s.counts(0, 1)?.size(shape)?;
    super::header::view_rank(shape.rank() as u32)?;
    require(space != Space::Global, || "allocates global memory".into())?;
    s.result(0, &Type::view(elem, shape.rank() as u32, space))
}

pub(super) fn load(s: &Subject) -> Outcome {
    let view = s.offsets(1)?;
    s.results_len(1)?;
    s.operand(s.data.operands.len() - 1, &Type::scalar(view.elem))?;
    s.result_elem(view.elem)?;
    s.box_of(&view, &s.result_tile(0)?.shape)
}

pub(super) fn store(s: &Subject) -> Outcome {
    let view = s.offsets(1)?;
    s.results_len(0)?;
    s.writable(&view)?;
    let last = s.data.operands.len() - 1;
    let tile = s.tile(last)?;
    s.operand(last, &Type::tile(view.elem, tile.shape.clone()))?;
    s.box_of(&view, &tile.shape)
}

pub(super) fn gather(s: &Subject, masked: bool) -> Outcome {
    let (view, shape) = s.indices(masked, 1)?;
    s.results_len(1)?;
    s.operand(s.data.operands.len() - 1, &Type::scalar(view.elem))?;
    let shape = shape.unwrap_or_default();
    s.result(0, &Type::tile(view.elem, shape.clone()))?;
    s.shared_by_tile(&view, &shape)
}

pub(super) fn scatter(s: &Subject, masked: bool, asynchronous: bool) -> Outcome {
    let (view, shape) = s.indices(masked, 1)?;
    s.results_len(0)?;
    s.writable(&view)?;
    if asynchronous {
        require(matches!(s.kernel.level, Level::Thread { .. }), || {
            "asynchronous in a kernel over tiles".into()
        })?;
        let shared = view.space == Space::Shared;
        require(shared, || {
            format!("an asynchronous store to a {}, expected shared memory", Type::View(view))
        })?;
    }
    s.values(&view, shape.unwrap_or_default(), 1)
}

pub(super) fn atomic(s: &Subject, op: AtomicOp, masked: bool) -> Outcome {
    let (view, shape) = s.indices(masked, 1)?;
    s.atomic_class(op, view.elem)?;
    s.atomic(&view, shape.unwrap_or_default(), 1)
}

pub(super) fn atomic_cas(s: &Subject) -> Outcome {
    let (view, shape) = s.indices(false, 2)?;
    s.class_of_words(Class::Number, view.elem)?;
    s.atomic(&view, shape.unwrap_or_default(), 2)
}

pub(super) fn address(s: &Subject) -> Outcome {
    s.counts(1, 1)?.view()?;
    s.result(0, &Type::scalar(Scalar::U64))
}

pub(super) fn scratch(s: &Subject, offset: u32) -> Outcome {
    let size = s.kernel.scratch_bytes;
    require(offset < size, || format!("offset {offset} of {size} bytes of scratch memory"))?;
    s.counts(0, 1)?;
    match s.result_ty(0).as_view() {
        None => s.result(0, &Type::scalar(Scalar::U64)),
        Some(view) => {
            s.result(0, &Type::view(view.elem, 1, Space::Shared))?;
            let elem = view.elem;
            require(offset.is_multiple_of(elem.bytes()), || {
                format!("offset {offset}, expected a multiple of the {} bytes of {elem}", elem.bytes())
            })
        }
    }
}

pub(super) fn ptr_load(s: &Subject, lanes: u32, predicated: bool) -> Outcome {
    s.address(predicated, 0)?;
    s.results_len(lanes as usize)?;
    s.lanes(lanes, s.result_ty(0))?;
    (0..lanes as usize).try_for_each(|i| s.result(i, s.result_ty(0)))
}

pub(super) fn ptr_store(s: &Subject, lanes: u32, predicated: bool) -> Outcome {
    let first = s.address(predicated, lanes as usize)?;
    s.results_len(0)?;
    s.lanes(lanes, s.ty(first))?;
    (first..first + lanes as usize).try_for_each(|i| s.operand(i, s.ty(first)).map(|_| ()))
}

pub(super) fn ptr_atomic(s: &Subject, op: AtomicOp, predicated: bool) -> Outcome {
    let first = s.address(predicated, 1)?;
    s.atomic_class(op, s.scalar(first)?)?;
    s.results_len(1)?;
    s.result(0, s.ty(first))
}

pub(super) fn ptr_atomic_cas(s: &Subject, predicated: bool) -> Outcome {
    let first = s.address(predicated, 2)?;
    s.class_of_words(Class::Number, s.scalar(first)?)?;
    s.operand(first + 1, s.ty(first))?.results_len(1)?;
    s.result(0, s.ty(first))
}

impl Subject<'_> {
    /// The view that is operand 0.
    pub(super) fn view(&self) -> Result<ViewType, String> {
        let value = *self.data.operands.first().ok_or("has no view")?;
        let ty = self.kernel.ty(value);
        ty.as_view().ok_or_else(|| format!("operand 0 is {ty}, expected a view"))
    }

    /// The view, followed by a scalar i64 for each axis and `rest` other operands.
    pub(super) fn offsets(&self, rest: usize) -> Result<ViewType, String> {
        let view = self.view()?;
        let rank = view.rank as usize;
        let have = self.data.operands.len();
        require(have == 1 + rank + rest, || format!("has {have} operands, expected {}", 1 + rank + rest))?;
        (1..=rank).try_for_each(|i| self.operand(i, &Type::scalar(Scalar::I64)).map(|_| ()))?;
        Ok(view)
    }

    /// The view, followed by an integer tile for each axis, all of one shape (`None` at rank 0), a
    /// mask and `rest` other operands.
    fn indices(&self, masked: bool, rest: usize) -> Result<(ViewType, Option<Shape>), String> {
        let view = self.view()?;
        let rank = view.rank as usize;
        let have = self.data.operands.len();
        let expected = 1 + rank + masked as usize + rest;
        require(have == expected, || format!("has {have} operands, expected {expected}"))?;
        let mut shape = None;
        for at in 1..=rank {
            let index = self.tile(at)?;
            self.class_of_words(Class::Integer, index.elem).map_err(|e| format!("index {}: {e}", at - 1))?;
            let first = shape.get_or_insert_with(|| index.shape.clone());
            require(*first == index.shape, || {
                format!("index {} is {}, expected {first}", at - 1, index.shape)
            })?;
        }
        if masked {
            self.operand(1 + rank, &Type::tile(Scalar::Bool, shape.clone().unwrap_or_default()))?;
        }
        Ok((view, shape))
    }

    /// The box of a load or store has the view's rank, and if it is a tile, all threads see the
    /// memory.
    fn box_of(&self, view: &ViewType, shape: &Shape) -> Outcome {
        require(shape.rank() == view.rank as usize, || {
            format!("a box of rank {} in a view of rank {}", shape.rank(), view.rank)
        })?;
        self.shared_by_tile(view, shape)
    }

    fn shared_by_tile(&self, view: &ViewType, shape: &Shape) -> Outcome {
        require(shape.rank() == 0 || view.space != Space::Local, || {
            "a tile is spread over threads and cannot lie in one thread's local memory".into()
        })
    }

    pub(super) fn writable(&self, view: &ViewType) -> Outcome {
        if view.space == Space::Global { self.writable_at(0) } else { Ok(()) }
    }

    /// The view of global memory at a position may be written through.
    pub(super) fn writable_at(&self, at: usize) -> Outcome {
        let args = &self.kernel.block(self.kernel.body).args;
        let param = args.iter().position(|v| *v == self.data.operands[at]);
        let mutable = param.is_none_or(|i| self.kernel.params[i].mutable);
        require(mutable, || "writes through a view that is not mutable".into())
    }

    /// The last `count` operands are tiles of the view's elements and this shape.
    fn values(&self, view: &ViewType, shape: Shape, count: usize) -> Outcome {
        self.shared_by_tile(view, &shape)?;
        let ty = Type::tile(view.elem, shape);
        let all = self.data.operands.len();
        (all - count..all).try_for_each(|i| self.operand(i, &ty).map(|_| ()))
    }

    /// An atomic operation is on elements that it works on.
    pub(super) fn atomic_class(&self, op: AtomicOp, elem: Scalar) -> Outcome {
        require(op.pair_of().is_none() || elem == Scalar::U32, || {
            format!("`{}` of {elem}, expected words of u32", op.name())
        })?;
        self.class_of_words(op.class(), elem)
    }

    fn atomic(&self, view: &ViewType, shape: Shape, values: usize) -> Outcome {
        require(view.space != Space::Local, || "local memory has no atomics".into())?;
        self.writable(view)?;
        self.results_len(1)?;
        self.result(0, &Type::tile(view.elem, shape.clone()))?;
        self.values(view, shape, values)
    }

    /// A u64 address and maybe a predicate, then `rest` other operands, the first of which has the
    /// position that is returned.
    pub(super) fn address(&self, predicated: bool, rest: usize) -> Result<usize, String> {
        let first = 1 + predicated as usize;
        let have = self.data.operands.len();
        require(have == first + rest, || format!("has {have} operands, expected {}", first + rest))?;
        self.operand(0, &Type::scalar(Scalar::U64))?;
        if predicated {
            self.operand(1, &Type::scalar(Scalar::Bool))?;
        }
        Ok(first)
    }

    pub(super) fn lanes(&self, lanes: u32, ty: &Type) -> Outcome {
        require(ty.is_scalar(), || format!("a lane is {ty}, expected a scalar"))?;
        let fits = lanes.is_power_of_two() && lanes.saturating_mul(ty.elem().bytes()) <= 16;
        require(fits, || format!("{lanes} lanes of {ty}, expected a power of two within 16 bytes"))
    }
}
