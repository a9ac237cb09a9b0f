//! Tiles between registers and shared tiles: by `stmatrix` where the threads hold fragments of
//! 16-bit elements, as they do of what products become, and by `ldmatrix` as products take them.

use super::Lowering;
use crate::error::CompileError;
use crate::layout::{AxisBits, Layout};
use kiln_ir::{BinaryOp, ExplicitOp, Factor, FragmentOp, Op, OpData, OpKind, Scalar, Shape, Type, Value};

/// Bytes of a row of a panel: the columns of a shared tile lie in panels of as many, each a run of
/// rows.
const PANEL: u32 = 128;
/// Bytes of the chunks that change places within a row of a panel: chunk `i` of row `r` stands at
/// `i ^ r % 8`.
const CHUNK: u32 = 16;
/// Bits of a lane's number that say which row of a fragment it gives the address of.
const ROW_BITS: usize = 3;

/// A store to a stage of a shared tile.
struct SharedStore<'a> {
    place: SharedPlace,
    layout: Layout,
    registers: &'a [Value],
    elem: Scalar,
    /// The first column of the tile that is stored, in elements of the tile.
    column: u32,
    /// The address of the stage.
    base: Value,
}

impl Lowering<'_> {
    /// Stores the registers of a tile where they belong in a shared tile. Bits of an address are
    /// sums (exclusive ors) of what the bits of row and column give, so that a thread's part and a
    /// register's are computed apart.
    pub(super) fn shared_store(&mut self, op: Op, data: &OpData, column: u32) -> Result<(), CompileError> {
        let (tile, view) = (data.stored_value(), data.tile());
        let (elem, stored) = (self.src.ty(tile).elem(), self.src.ty(view).elem());
        let Some(OpKind::Explicit(ExplicitOp::SharedTile { rows, columns, .. })) =
            self.src.defining_op(view).map(|d| &d.kind)
        else {
            return Err(self.internal("a store to no shared tile".into()));
        };
        let (rows, columns) = (*rows, *columns);
        // Pairs are elements of their own here.
        let pairs = elem.bytes() / stored.bytes();
        let place =
            SharedPlace { rows, columns: columns / pairs, bytes: elem.bytes(), shape: self.src.shape(tile) };
        let layout = self.layout(self.plan.input(op, 0));
        let registers = self.operand(tile, self.plan.input(op, 0))?;
        let first = column / pairs;
        // Columns outside the range must be in other registers of the same thread.
        if layout.thread().iter().any(|&b| place.outside(b) != 0) || !first.is_multiple_of(place.columns) {
            return Err(self.unsupported(
                data,
                &format!(
                    "a store of columns {column} to {} of a tile whose threads hold others",
                    column + columns
                ),
                "store a number of columns that each thread has, such as 64",
            ));
        }
        let base = self.stage_address(view, data.stage(), rows * columns * stored.bytes())?;
        let store = SharedStore { place, layout, registers: &registers, elem, column: first, base };
        if !self.store_fragments(&store) {
            self.store_elements(&store);
        }
        Ok(())
    }

    /// Loads the words of a stage as fragments, four at a time.
    pub(super) fn shared_load(&mut self, data: &OpData) -> Result<(), CompileError> {
        let (view, result) = (data.tile(), data.results[0]);
        let (shape, home) = (self.src.shape(result), self.plan.home(result));
        let bytes = Scalar::U32.bytes();
        let place = SharedPlace { rows: shape[0], columns: shape[1], bytes, shape: shape.clone() };
        let layout = self.layout(home);
        let fragments = place.fragments(&layout, Scalar::U32).filter(|_| layout.registers() >= 4);
        if fragments.is_none() {
            return Err(self.unsupported(
                data,
                &format!("words {shape} of a shared tile on {} warps", self.warps),
                "give it a multiple of 4 warps, 16 rows or more for each, and a product that takes them",
            ));
        }
        let base = self.stage_address(view, data.stage(), shape[0] * shape[1] * bytes)?;
        let lanes = place.row_lanes(&layout, 0, 2);
        let thread = self.em.xor_of_bits(&lanes);
        let kind = OpKind::Fragment(FragmentOp::LdMatrix { count: 4, transposed: false });
        let mut registers = Vec::with_capacity(layout.registers());
        for at in (0..layout.registers()).step_by(4) {
            let address = self.swizzled_address(base, thread, place.offset(layout.register_index(at)));
            let made = self.em.op(kind.clone(), &[address], &[(); 4].map(|()| Type::scalar(Scalar::U32)));
            registers.extend_from_slice(&self.em.kernel.op(made).results);
        }
        self.define(result, home, registers)
    }

    /// Every thread stores what it has, as many adjacent columns at a time as it has in a chunk.
    fn store_elements(&mut self, store: &SharedStore<'_>) {
        let SharedStore { place, layout, registers, .. } = store;
        let thread: Vec<u32> = layout.thread().iter().map(|&b| place.offset(b)).collect();
        let thread = self.em.xor_of_bits(&thread);
        let lanes = place.lanes(layout.register());
        for at in (0..registers.len()).step_by(lanes) {
            if let Some(address) = self.shared_address(store, thread, at) {
                self.shared_store_at(address, None, &registers[at..at + lanes]);
            }
        }
    }

    /// The address of a register's element, if it is one of those to store.
    fn shared_address(&mut self, store: &SharedStore<'_>, thread: Value, at: usize) -> Option<Value> {
        let flat = store.layout.register_index(at);
        if store.place.outside(flat) != store.column {
            return None;
        }
        Some(self.swizzled_address(store.base, thread, store.place.offset(flat)))
    }

    /// The address whose distance from a stage's beginning has a thread's part and this one.
    fn swizzled_address(&mut self, base: Value, thread: Value, part: u32) -> Value {
        let part = self.em.i32(part.into());
        let offset = self.em.binary(BinaryOp::Xor, thread, part);
        let offset = self.em.cast(offset, Scalar::U64);
        self.em.add(base, offset)
    }

    /// Stores fragments of 8 × 8 elements of 16 bits, up to four at a time, if that is what the
    /// threads of a warp have.
    fn store_fragments(&mut self, store: &SharedStore<'_>) -> bool {
        let SharedStore { place, layout, registers, elem, .. } = store;
        let Some(pair_bits) = place.fragments(layout, *elem) else { return false };
        let pack = Factor::half(*elem).map(FragmentOp::Pack);
        if pair_bits > 0 && pack.is_none() {
            return false;
        }
        // Which of the fragments that are stored together a register belongs to.
        let inside = layout.register()[pair_bits..].iter().take_while(|&&b| place.outside(b) == 0).count();
        let together = inside.min(2);
        let lanes = place.row_lanes(layout, pair_bits, together);
        let thread = self.em.xor_of_bits(&lanes);
        let count = 1 << together;
        for at in (0..registers.len()).step_by(count << pair_bits) {
            let Some(address) = self.shared_address(store, thread, at) else { continue };
            let mut operands = vec![address];
            for word in registers[at..at + (count << pair_bits)].chunks_exact(1 << pair_bits) {
                operands.push(match (word, pack) {
                    (&[low, high], Some(pack)) => self.pack(pack, [low, high]),
                    (word, _) => word[0],
                });
            }
            let kind = FragmentOp::StMatrix { count: count as u32 };
            self.em.op(OpKind::Fragment(kind), &operands, &[]);
        }
        true
    }
}

/// Where the elements of a tile lie in a stage of a shared tile.
struct SharedPlace {
    rows: u32,
    columns: u32,
    /// Bytes of an element.
    bytes: u32,
    /// The shape of the tile that is stored.
    shape: Shape,
}

impl SharedPlace {
    fn column(&self, flat: u32) -> u32 {
        AxisBits::of(&self.shape, 1).coordinate(flat)
    }

    /// The first column of the stage's width that has this element.
    fn outside(&self, flat: u32) -> u32 {
        self.column(flat) & !(self.columns - 1)
    }

    /// The distance from the stage's beginning, in bytes; columns are taken modulo those of the
    /// stage.
    fn offset(&self, flat: u32) -> u32 {
        let row = AxisBits::of(&self.shape, 0).coordinate(flat);
        let at = (self.column(flat) & (self.columns - 1)) * self.bytes;
        let (panel, within) = (at / PANEL, at % PANEL);
        panel * self.rows * PANEL + row * PANEL + (within ^ (row % (PANEL / CHUNK) * CHUNK))
    }

    /// How many registers in a row are adjacent columns within a chunk, given the lowest bases of
    /// the registers.
    fn lanes(&self, bases: &[u32]) -> usize {
        let adjacent = bases.iter().enumerate().take_while(|(i, b)| **b == 1 << i).count();
        1 << adjacent.min((CHUNK / self.bytes).trailing_zeros() as usize)
    }

    /// What each bit of a thread's number adds to the address of a row of fragments: lanes give the
    /// rows of the first, then of the others of 2 to the power of `together`, which the registers
    /// after a word's follow each other in.
    fn row_lanes(&self, layout: &Layout, pair_bits: usize, together: usize) -> Vec<u32> {
        let other = |bit: usize| if bit < together { layout.register()[pair_bits + bit] } else { 0 };
        let thread = layout.thread();
        let (rows, warps) = thread[2..].split_at(ROW_BITS);
        let lanes = rows.iter().copied().chain([other(0), other(1)]).chain(warps.iter().copied());
        lanes.map(|b| self.offset(b)).collect()
    }

    /// If the lanes of a warp hold fragments (see [`FragmentOp`]): how many bits of a register's
    /// number lie within a word of 4 bytes.
    fn fragments(&self, layout: &Layout, elem: Scalar) -> Option<usize> {
        let pair_bits = match elem {
            Scalar::U32 => 0,
            _ if self.bytes == 2 => 1,
            _ => return None,
        };
        let row = AxisBits::of(&self.shape, 0);
        let word = 1 << pair_bits;
        let lanes = [word, 2 * word].into_iter().chain((0..ROW_BITS as u32).map(|i| 1 << (row.shift + i)));
        let held = pair_bits == 0 || layout.register().first() == Some(&1);
        // A row of a fragment is a chunk.
        let own = |base: &u32| self.column(*base).is_multiple_of(CHUNK / self.bytes);
        let others =
            layout.register()[pair_bits..].iter().all(own) && layout.thread()[2 + ROW_BITS..].iter().all(own);
        let rows = row.count as usize >= ROW_BITS && self.columns * self.bytes >= PANEL;
        let same = layout.thread().iter().copied().take(2 + ROW_BITS).eq(lanes);
        (held && rows && same && others).then_some(pair_bits)
    }
}
