//! Values of lanes that are known now: what operations make of thread indices and constants alone,
//! as the number of a thread's warp. They are computed here and lie in memory beside the code.

use super::affine::{Affine, Uniform};
use super::asm::scalar_type;
use super::condition::Condition;
use super::elements::{Elements, Indexed};
use super::emitter::Emitter;
use super::liveness::Elementwise;
use super::repr::{Repr, Tile};
use cranelift_codegen::ir::{self, condcodes::IntCC};
use kiln_backend::Result;
use kiln_cpu_primitives::PrimitiveKey;
use kiln_ir::{AtomicOp, Bounds, Literal, OpData, OpKind, Scalar, Value, eval};

/// The most lanes that are done one by one.
const FEW: usize = 32;

impl Emitter<'_> {
    /// Keeps the result of an operation as constants, if it is known in every lane.
    pub(super) fn stays_known(&mut self, data: &OpData) -> Result<bool> {
        let [result] = data.results[..] else { return Ok(false) };
        let elem = self.kernel.ty(result).elem();
        let discrete = elem.is_int() || elem == Scalar::Bool;
        if !discrete || !self.has_lanes(result) || self.live.is_splat(result) {
            return Ok(false);
        }
        let Some(operation) = Elementwise::of(&data.kind) else { return Ok(false) };
        let inputs: Option<Vec<Vec<Literal>>> =
            data.operands.iter().map(|&value| self.known_lanes(value)).collect();
        let Some(inputs) = inputs else { return Ok(false) };
        let lanes = (0..self.len(result)).map(|lane| {
            let of = |index: usize| inputs[index][lane];
            match operation {
                Elementwise::Unary(op) => eval::unary(op, of(0)),
                Elementwise::Binary(op) => eval::binary(op, of(0), of(1)),
                Elementwise::Compare(op) => Some(eval::compare(op, of(0), of(1))),
                Elementwise::Select => Some(if of(0).bits() != 0 { of(1) } else { of(2) }),
                Elementwise::Fma => eval::fma(of(0), of(1), of(2)),
                Elementwise::Cast => Some(eval::cast(of(0), elem)),
            }
        });
        let Some(lanes) = lanes.collect::<Option<Vec<Literal>>>() else { return Ok(false) };
        let bytes: Vec<u8> = lanes
            .iter()
            .flat_map(|literal| literal.bits().to_le_bytes().into_iter().take(elem.bytes() as usize))
            .collect();
        let at = self.constant_bytes(&bytes);
        self.set(result, Repr::Tile(Tile { at, slot: None, windowed: false }));
        self.known.insert(result, lanes);
        Ok(true)
    }

    fn constant_bytes(&mut self, bytes: &[u8]) -> ir::Value {
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            i64::from_ne_bytes(word)
        });
        self.constant_words(words.collect())
    }

    /// The elements of a value in all lanes, if they are known.
    pub(super) fn known_lanes(&mut self, value: Value) -> Option<Vec<Literal>> {
        if let Some(lanes) = self.known.get(&value) {
            return Some(lanes.clone());
        }
        let lanes = 0..self.space?.lanes();
        match self.repr(value).ok()?.clone() {
            Repr::Affine(number) => {
                lanes.map(|lane| self.known_number(&number, lane).map(Literal::index)).collect()
            }
            Repr::Condition(condition) => {
                lanes.map(|lane| self.known_outcome(&condition, lane).map(Literal::bool)).collect()
            }
            Repr::Scalar(_) => self.constant_splat(value).map(|literal| vec![literal; lanes.len()]),
            Repr::Tile(_) | Repr::Matrix(_) | Repr::View(_) => None,
        }
    }

    /// The constant that all elements of a value are, if it is one.
    pub(super) fn constant_splat(&self, value: Value) -> Option<Literal> {
        let data = self.kernel.defining_op(value)?;
        if let OpKind::Const(literal) = data.kind {
            return Some(literal);
        }
        if data.kind == OpKind::Broadcast { self.constant_splat(data.input()) } else { None }
    }

    /// The place of a lane on each axis.
    fn place_of(&self, lane: usize) -> Option<[i64; 3]> {
        let [width, height, _] = self.space?.extents.map(|extent| extent as usize);
        Some([lane % width, lane / width % height, lane / width / height].map(|at| at as i64))
    }

    fn known_number(&self, number: &Affine, lane: usize) -> Option<i64> {
        let mut at = number.base.known()?;
        for (step, place) in number.steps.iter().zip(self.place_of(lane)?) {
            at = at.wrapping_add(step.known()?.wrapping_mul(place));
        }
        Some(at)
    }

    fn known_outcome(&self, condition: &Condition, lane: usize) -> Option<bool> {
        if !condition.gates.is_empty() {
            return None;
        }
        let mut holds = true;
        for term in &condition.terms {
            let [left, right] = [term.left, term.right].map(|side| self.known_number(&side, lane));
            holds &= eval::compare(term.op, Literal::index(left?), Literal::index(right?)).bits() != 0;
        }
        Some(holds != condition.inverted)
    }

    // ---- accesses

    /// Whether an access is one of lanes, each at indices of its own.
    fn is_of_lanes(&self, access: &Indexed) -> bool {
        let lanes = self.space.map_or(0, |space| space.lanes());
        access.len == lanes && !access.indices.is_empty()
    }

    /// The lanes that make an access, if they are known.
    fn active_lanes(&mut self, access: &Indexed) -> Option<Vec<usize>> {
        let Some(mask) = access.mask else { return Some((0..access.len).collect()) };
        let holds = self.known_lanes(mask)?;
        Some((0..access.len).filter(|&lane| holds[lane].bits() != 0).collect())
    }

    /// The offset in a view that a lane names, if it is known and inside.
    fn known_offset(&mut self, access: &Indexed, indices: &[Vec<Literal>], lane: usize) -> Option<i64> {
        let mut offset = 0i64;
        for (axis, index) in indices.iter().enumerate() {
            let at = i64::try_from(index[lane].as_i128()).ok()?;
            let extent = self.asm.uniform(access.view.extents[axis]).known()?;
            let stride = self.asm.uniform(access.view.strides[axis]).known()?;
            if !(0..extent).contains(&at) {
                return None;
            }
            offset = offset.checked_add(at.checked_mul(stride)?)?;
        }
        Some(offset)
    }

    fn known_indices(&mut self, access: &Indexed) -> Option<Vec<Vec<Literal>>> {
        let indices = access.indices.clone();
        indices.into_iter().map(|index| self.known_lanes(index)).collect()
    }

    /// The elements of an access whose offsets are known, and inside of the view in all lanes that
    /// make it.
    pub(super) fn known_elements(&mut self, access: &Indexed) -> Result<Option<Elements>> {
        if !self.is_of_lanes(access) {
            return Ok(None);
        }
        let Some(indices) = self.known_indices(access) else { return Ok(None) };
        let lanes = match self.active_lanes(access) {
            Some(lanes) => lanes,
            None => (0..access.len).collect(),
        };
        let mut offsets = vec![0i64; access.len];
        for lane in lanes {
            let Some(offset) = self.known_offset(access, &indices, lane) else { return Ok(None) };
            offsets[lane] = offset;
        }
        let mask = match access.mask {
            Some(mask) => self.array(mask, access.len)?,
            None => self.asm.int(0),
        };
        let linear = self.constant_words(offsets);
        let count = self.asm.int(access.len as i64);
        Ok(Some(Elements { base: access.view.base, linear, mask, count }))
    }

    /// Stores of few lanes that are known, one by one; whether the access is such.
    pub(super) fn scatter_few(&mut self, access: &Indexed) -> Result<bool> {
        if access.mask.is_none() || !self.is_of_lanes(access) {
            return Ok(false);
        }
        let Some(lanes) = self.active_lanes(access).filter(|lanes| lanes.len() <= FEW) else {
            return Ok(false);
        };
        let Some(indices) = self.known_indices(access) else { return Ok(false) };
        let mut places = Vec::new();
        for &lane in &lanes {
            let Some(offset) = self.known_offset(access, &indices, lane) else { return Ok(false) };
            places.push((lane as i64, offset));
        }
        let (elem, value) = (access.view.elem, access.values[0]);
        let bytes = i64::from(elem.bytes());
        let scalar = self.scalar(value).ok();
        let tile = match scalar {
            Some(_) => None,
            None => Some(self.array(value, access.len)?),
        };
        for (lane, offset) in places {
            let element = match (scalar, tile) {
                (Some(scalar), _) => scalar,
                (None, Some(tile)) => {
                    let at = self.asm.add_const(tile, lane * bytes);
                    self.asm.load(scalar_type(elem), at, 0)
                }
                (None, None) => return Err(self.internal("no value of lanes")),
            };
            let at = self.asm.add_const(access.view.base, offset * bytes);
            self.asm.store(element, at, 0);
        }
        Ok(true)
    }

    /// Atomics of few lanes that are known, whose old values nothing reads, one by one; whether the
    /// access is such. So a thread adds what its block has found.
    pub(super) fn atomic_few(
        &mut self,
        data: &OpData,
        access: &Indexed,
        op: AtomicOp,
        bounds: Bounds,
    ) -> Result<bool> {
        if access.mask.is_none() || !self.is_of_lanes(access) || self.live.is_used(data.results[0]) {
            return Ok(false);
        }
        let Some(lanes) = self.active_lanes(access).filter(|lanes| lanes.len() <= FEW) else {
            return Ok(false);
        };
        let wide = |index: &Value| self.kernel.ty(*index).elem() == Scalar::I64;
        if !access.indices.iter().all(wide) {
            return Ok(false);
        }
        let numbers: Option<Vec<Affine>> = access.indices.iter().map(|&index| self.affine(index)).collect();
        let Some(numbers) = numbers else { return Ok(false) };
        // A fault leaves none of them done.
        let mut places = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let Some(place) = self.place_of(lane) else { return Ok(false) };
            let indices: Vec<ir::Value> =
                numbers.iter().map(|number| self.number_at(number, place)).collect();
            if bounds == Bounds::Check {
                for (&index, &extent) in indices.iter().zip(&access.view.extents) {
                    let inside = self.asm.compare(IntCC::UnsignedLessThan, index, extent);
                    self.check_index(lane, inside, index, extent);
                }
            }
            places.push((lane, indices));
        }
        let bytes = i64::from(access.view.elem.bytes());
        let (values, step) = match self.scalar(access.values[0]) {
            Ok(scalar) => {
                let at = self.asm.stack(8);
                self.asm.store(scalar, at, 0);
                (at, 0)
            }
            Err(_) => (self.array(access.values[0], access.len)?, bytes),
        };
        for (lane, indices) in places {
            let value = self.asm.add_const(values, lane as i64 * step);
            self.atomic_of_lane(access, op, bounds, &indices, value)?;
        }
        Ok(true)
    }

    /// A number in the lane at a place.
    fn number_at(&mut self, number: &Affine, place: [i64; 3]) -> ir::Value {
        let mut sum = number.base;
        for (&step, at) in number.steps.iter().zip(place) {
            let along = self.asm.uniform_mul(step, Uniform::constant(at));
            sum = self.asm.uniform_add(sum, along);
        }
        self.asm.uniform_value(sum)
    }

    /// The atomic of one lane, with the address of its value. Indices were checked, if they are to
    /// be.
    fn atomic_of_lane(
        &mut self,
        access: &Indexed,
        op: AtomicOp,
        bounds: Bounds,
        indices: &[ir::Value],
        value: ir::Value,
    ) -> Result<()> {
        let (rest, _) = self.asm.block(&[]);
        let mut linear = self.asm.int(0);
        for (axis, &index) in indices.iter().enumerate() {
            if bounds == Bounds::Mask {
                let inside = self.asm.compare(IntCC::UnsignedLessThan, index, access.view.extents[axis]);
                let (next, _) = self.asm.block(&[]);
                self.asm.branch(inside, next, rest);
                self.asm.enter(next);
            }
            let along = self.asm.mul(index, access.view.strides[axis]);
            linear = self.asm.add(linear, along);
        }
        let at = self.asm.stack(8);
        self.asm.store(linear, at, 0);
        let (none, one) = (self.asm.int(0), self.asm.int(1));
        let args = [none, access.view.base, at, none, value, one];
        self.call(PrimitiveKey::Atomic(op, access.view.elem), &args)?;
        self.asm.jump(rest, &[]);
        self.asm.enter(rest);
        Ok(())
    }
}
