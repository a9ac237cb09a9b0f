//! Addresses, loads, stores and atomics.

use super::parameters::first_word;
use super::register::{Class, Reg, suffix};
use super::target::EVICTION_VERSION;
use super::threads::scope as scope_name;
use super::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{AtomicOp, BinaryOp, Def, OpData, OpKind, Reuse, Scalar, Scope, Space, Value};

/// How a run of adjacent elements moves: as `count` words of a class and PTX type.
struct Words {
    count: u32,
    class: Class,
    ty: &'static str,
}

impl Words {
    /// `lanes` elements of `bytes` bytes as the widest words a vector instruction takes.
    fn of(bytes: u32, lanes: u32) -> Words {
        match (bytes * lanes, bytes) {
            (total, 8) => Words { count: total / 8, class: Class::B64, ty: "b64" },
            (1, _) => Words { count: 1, class: Class::B16, ty: "b8" },
            (2, _) => Words { count: 1, class: Class::B16, ty: "b16" },
            (total, _) => Words { count: total / 4, class: Class::B32, ty: "b32" },
        }
    }

    fn vector(&self) -> &'static str {
        match self.count {
            2 => ".v2",
            4 => ".v4",
            _ => "",
        }
    }
}

pub(super) fn list(regs: &[Reg]) -> String {
    match regs {
        [one] => one.to_string(),
        many => format!("{{{}}}", many.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ")),
    }
}

impl Writer<'_> {
    /// A word of a view parameter: base, extent or stride.
    pub(super) fn view_word(&mut self, op: &OpData, word: impl Fn(usize) -> usize) -> Result<()> {
        let view = op.view();
        let kernel = self.kernel;
        if let Def::Arg(_, position) = kernel.def(view) {
            let param = &kernel.params[position as usize];
            let rank = param.ty.as_view().map_or(0, |v| v.rank as usize);
            let first = first_word(kernel, position as usize);
            let to = self.define(op.results[0]);
            self.put(format_args!("ld.param.b64 {to}, [w{}]", first + word(rank)));
            return Ok(());
        }
        let Some(OpData { kind: OpKind::Alloc { shape, .. }, .. }) = kernel.defining_op(view) else {
            return Err(self.unsupported(op, "a view from elsewhere", "Please report it"));
        };
        let rank = shape.rank();
        let at = word(rank) - 1;
        let value = match at.checked_sub(rank) {
            None => shape[at] as usize,
            Some(axis) => shape.around(axis).2,
        };
        let to = self.define(op.results[0]);
        self.put(format_args!("mov.b64 {to}, {value}"));
        Ok(())
    }

    pub(super) fn address(&mut self, op: &OpData) -> Result<()> {
        match self.offsets[op.view().index()] {
            None => self.view_word(op, |_| 0),
            Some(offset) => {
                let space = self.kernel.ty(op.view()).as_view().map(|v| v.space);
                let to = self.define(op.results[0]);
                let array = if space == Some(Space::Local) { "local" } else { "shared" };
                self.put(format_args!("mov.b64 {to}, {array}_memory"));
                if offset > 0 {
                    self.put(format_args!("add.u64 {to}, {to}, {offset}"));
                }
                Ok(())
            }
        }
    }

    pub(super) fn scratch(&mut self, op: &OpData, offset: u32) {
        let to = self.define(op.results[0]);
        self.put(format_args!("mov.b64 {to}, shared_memory"));
        if offset > 0 {
            self.put(format_args!("add.u64 {to}, {to}, {offset}"));
        }
    }

    /// Whether an address comes from a view that is not written meanwhile: its loads may use the
    /// read-only path.
    fn is_read_only(&self, address: Value) -> bool {
        let mut value = address;
        for _ in 0..64 {
            let Some(data) = self.kernel.defining_op(value) else { return false };
            if data.kind == OpKind::Address {
                return match self.kernel.def(data.view()) {
                    Def::Arg(block, position) => {
                        block == self.kernel.body
                            && !self.kernel.params[position as usize].mutable
                            && !self.watched.contains(&data.view())
                    }
                    Def::Result(..) => false,
                };
            }
            if data.kind != OpKind::Binary(BinaryOp::Add) {
                return false;
            }
            value = data.left();
        }
        false
    }

    /// A hint of caches, if the driver's PTX has it.
    fn expressible(&mut self, reuse: Reuse) -> Reuse {
        match reuse {
            Reuse::EvictFirst | Reuse::EvictLast if self.target.ptx < EVICTION_VERSION => Reuse::Normal,
            Reuse::EvictFirst | Reuse::EvictLast => {
                self.version = self.version.max(EVICTION_VERSION);
                reuse
            }
            Reuse::Normal | Reuse::Streaming | Reuse::L2Only | Reuse::WriteThrough => reuse,
        }
    }

    pub(super) fn load(&mut self, op: &OpData, space: Space, lanes: u32, reuse: Reuse) -> Result<()> {
        let address = self.get(op.address())?;
        let reuse = self.expressible(reuse);
        let elem = self.elem(op.results[0]);
        let words = Words::of(elem.bytes(), lanes);
        let regs: Vec<Reg> = (0..words.count).map(|_| self.reg(words.class)).collect();
        let mut predicate = String::new();
        if let Some(mask) = op.mask() {
            predicate = format!("@{} ", self.get(mask)?);
            for &reg in &regs {
                self.put(format_args!("mov.{} {reg}, 0", reg.class.bits()));
            }
        }
        // No hint for data that streams: on an H200, `L1::no_allocate` made a sum 13 % and an
        // addition 6 % slower when L2 was full of dirty lines (bench/notes.md), and nothing was
        // ever faster for a hint on loads.
        let cache = match (space, self.is_read_only(op.address()), reuse) {
            (Space::Global, true, Reuse::Normal | Reuse::Streaming | Reuse::WriteThrough) => ".nc",
            (Space::Global, true, Reuse::EvictFirst) => ".nc.L1::evict_first",
            (Space::Global, true, Reuse::EvictLast) => ".nc.L1::evict_last",
            (Space::Global, true, Reuse::L2Only) => ".cg.nc",
            (Space::Global, false, Reuse::Streaming) => ".cs",
            (Space::Global, false, Reuse::EvictFirst) => ".L1::evict_first",
            (Space::Global, false, Reuse::EvictLast) => ".L1::evict_last",
            (Space::Global, false, Reuse::L2Only) => ".cg",
            (Space::Global, false, Reuse::Normal | Reuse::WriteThrough)
            | (Space::Shared | Space::Local, ..) => "",
        };
        let (vector, ty) = (words.vector(), words.ty);
        self.put(format_args!(
            "{predicate}ld.{}{cache}{vector}.{ty} {}, [{address}]",
            space.name(),
            list(&regs)
        ));
        let values: Vec<Reg> = op.results.iter().map(|&v| self.define(v)).collect();
        self.unpack(elem, &regs, &values);
        Ok(())
    }

    /// Splits memory words into elements.
    fn unpack(&mut self, elem: Scalar, words: &[Reg], values: &[Reg]) {
        let per_word = values.len() / words.len();
        for (&word, group) in words.iter().zip(values.chunks(per_word)) {
            match (elem.bytes(), group) {
                (1, group) => {
                    let wide = self.reg(Class::B32);
                    match word.class {
                        Class::B16 => self.put(format_args!("cvt.u32.u16 {wide}, {word}")),
                        _ => self.mov(wide, word),
                    }
                    for (i, &value) in group.iter().enumerate() {
                        let byte = self.reg(Class::B32);
                        self.put(format_args!("bfe.u32 {byte}, {wide}, {}, 8", 8 * i));
                        match value.class {
                            Class::Pred => self.put(format_args!("setp.ne.u32 {value}, {byte}, 0")),
                            _ => {
                                self.put(format_args!("cvt.u16.u32 {value}, {byte}"));
                                self.bytes_of_words.insert(value, (wide, i));
                            }
                        }
                    }
                }
                (2, &[lo, hi]) => self.put(format_args!("mov.b32 {{{lo}, {hi}}}, {word}")),
                (_, &[value]) => self.mov(value, word),
                _ => {}
            }
        }
    }

    pub(super) fn store(&mut self, op: &OpData, space: Space, lanes: u32, reuse: Reuse) -> Result<()> {
        let address = self.get(op.address())?;
        let reuse = self.expressible(reuse);
        let predicate = op.mask().map(|mask| self.get(mask)).transpose()?;
        let predicate = predicate.map_or_else(String::new, |mask| format!("@{mask} "));
        let values: Vec<Reg> = op.stored_values().iter().map(|&v| self.get(v)).collect::<Result<_>>()?;
        let elem = self.elem(op.stored_value());
        let words = Words::of(elem.bytes(), lanes);
        let per_word = values.len() / words.count as usize;
        let regs: Vec<Reg> =
            values.chunks(per_word).map(|group| self.pack(elem, words.class, group)).collect();
        let cache = match (space, reuse) {
            (Space::Global, Reuse::Streaming) => ".cs",
            (Space::Global, Reuse::EvictFirst) => ".L1::evict_first",
            (Space::Global, Reuse::EvictLast) => ".L1::evict_last",
            (Space::Global, Reuse::L2Only) => ".cg",
            (Space::Global, Reuse::WriteThrough) => ".wt",
            (Space::Global, Reuse::Normal) | (Space::Shared | Space::Local, _) => "",
        };
        let (vector, ty) = (words.vector(), words.ty);
        self.put(format_args!(
            "{predicate}st.{}{cache}{vector}.{ty} [{address}], {}",
            space.name(),
            list(&regs)
        ));
        Ok(())
    }

    /// Joins elements into a memory word.
    fn pack(&mut self, elem: Scalar, class: Class, group: &[Reg]) -> Reg {
        match (elem.bytes(), group) {
            (1, group) => {
                if let Some(word) = self.bytes_of_other_words(group) {
                    return word;
                }
                let word = self.byte(group[0], 0);
                for (i, &value) in group.iter().enumerate().skip(1) {
                    let byte = self.byte(value, i);
                    self.put(format_args!("or.b32 {word}, {word}, {byte}"));
                }
                if class == Class::B32 {
                    return word;
                }
                let narrow = self.reg(Class::B16);
                self.put(format_args!("cvt.u16.u32 {narrow}, {word}"));
                narrow
            }
            (2, &[lo, hi]) => {
                let word = self.reg(Class::B32);
                self.put(format_args!("mov.b32 {word}, {{{lo}, {hi}}}"));
                word
            }
            (_, group) => group[0],
        }
    }

    /// The element of one byte in its place in a word.
    fn byte(&mut self, value: Reg, place: usize) -> Reg {
        let byte = self.reg(Class::B32);
        if value.class == Class::Pred {
            self.put(format_args!("selp.b32 {byte}, {}, 0, {value}", 1u32 << (8 * place)));
            return byte;
        }
        self.put(format_args!("cvt.u32.u16 {byte}, {value}"));
        if place > 0 {
            self.put(format_args!("shl.b32 {byte}, {byte}, {}", 8 * place));
        }
        byte
    }

    pub(super) fn atomic(&mut self, op: &OpData, space: Space, atomic: AtomicOp, scope: Scope) -> Result<()> {
        let elem = self.elem(op.stored_value());
        let (address, value) = (self.get(op.address())?, self.get(op.stored_value())?);
        let to = self.define(op.results[0]);
        let skip = self.open_predicate(op, to)?;
        let (s, space) = (scope_name(scope), space.name());
        let bits = value.class.bits();
        match (atomic, elem) {
            // One instruction adds two bf16 from compute capability 9.0 on.
            (AtomicOp::AddF16x2 | AtomicOp::AddBf16x2, _)
                if atomic == AtomicOp::AddF16x2 || self.target.compute >= (9, 0) =>
            {
                let ty = if atomic == AtomicOp::AddF16x2 { "f16x2" } else { "bf16x2" };
                self.put(format_args!("atom.relaxed.{s}.{space}.add.noftz.{ty} {to}, [{address}], {value}"));
            }
            (_, Scalar::Bool) => return Err(self.unsupported(op, "an atomic on bool", "Use u32")),
            (AtomicOp::And | AtomicOp::Or | AtomicOp::Xor, e) if e.is_float() => {
                return Err(self.unsupported(op, format!("a bitwise atomic on {e}"), "Use an integer type"));
            }
            (AtomicOp::Exchange, e) if e.bytes() >= 4 => {
                self.put(format_args!("atom.relaxed.{s}.{space}.exch.{bits} {to}, [{address}], {value}"));
            }
            (
                AtomicOp::Add,
                Scalar::I32 | Scalar::U32 | Scalar::F32 | Scalar::F64 | Scalar::I64 | Scalar::U64,
            ) => {
                let ty = if elem == Scalar::I64 { "u64" } else { suffix(elem) };
                self.put(format_args!("atom.relaxed.{s}.{space}.add.{ty} {to}, [{address}], {value}"));
            }
            (AtomicOp::Min | AtomicOp::Max, e) if e.is_int() => {
                let name = if atomic == AtomicOp::Min { "min" } else { "max" };
                self.put(format_args!(
                    "atom.relaxed.{s}.{space}.{name}.{} {to}, [{address}], {value}",
                    suffix(e)
                ));
            }
            (AtomicOp::And | AtomicOp::Or | AtomicOp::Xor, _) => {
                let name = format!("{atomic:?}").to_lowercase();
                self.put(format_args!("atom.relaxed.{s}.{space}.{name}.{bits} {to}, [{address}], {value}"));
            }
            (AtomicOp::Add | AtomicOp::Min | AtomicOp::Max | AtomicOp::Exchange, _)
            | (AtomicOp::AddF16x2 | AtomicOp::AddBf16x2, _) => {
                self.atomic_by_exchange(atomic, elem, (s, space), to, address, value);
            }
        }
        if let Some(label) = skip {
            self.place(label);
        }
        Ok(())
    }

    /// What the hardware has no atomic for: compare and exchange until no other thread came
    /// between.
    fn atomic_by_exchange(
        &mut self,
        atomic: AtomicOp,
        elem: Scalar,
        (s, space): (&str, &str),
        to: Reg,
        address: Reg,
        value: Reg,
    ) {
        let (seen, next) = (self.reg(to.class), self.reg(to.class));
        let again = self.reg(Class::Pred);
        let (top, bits) = (self.label(), to.class.bits());
        self.put(format_args!("ld.relaxed.{s}.{space}.{bits} {to}, [{address}]"));
        self.place(top);
        self.mov(seen, to);
        if atomic == AtomicOp::Exchange {
            self.mov(next, value);
        } else {
            self.combine(atomic, elem, next, seen, value);
        }
        self.put(format_args!("atom.relaxed.{s}.{space}.cas.{bits} {to}, [{address}], {seen}, {next}"));
        self.put(format_args!("setp.ne.{} {again}, {to}, {seen}", if bits == "b16" { "s16" } else { bits }));
        self.put(format_args!("@{again} bra {top}"));
    }

    /// The sums of the two elements that words are made of.
    fn add_pair(&mut self, half: Scalar, next: Reg, seen: Reg, value: Reg) {
        let [a, b, c, d] = [(); 4].map(|()| self.reg(Class::B16));
        self.put(format_args!("mov.b32 {{{a}, {b}}}, {seen}"));
        self.put(format_args!("mov.b32 {{{c}, {d}}}, {value}"));
        for (seen, value) in [(a, c), (b, d)] {
            let (wide, other) = (self.widened(half, seen), self.widened(half, value));
            self.put(format_args!("add.f32 {wide}, {wide}, {other}"));
            self.convert(Scalar::F32, half, wide, seen);
        }
        self.put(format_args!("mov.b32 {next}, {{{a}, {b}}}"));
    }

    fn combine(&mut self, atomic: AtomicOp, elem: Scalar, next: Reg, seen: Reg, value: Reg) {
        let name = match atomic {
            AtomicOp::Min => "min",
            AtomicOp::Max => "max",
            // The hardware has the others, or they combine nothing.
            AtomicOp::Add | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exchange => "add",
            AtomicOp::AddF16x2 | AtomicOp::AddBf16x2 => "add",
        };
        if let Some(half) = atomic.pair_of() {
            return self.add_pair(half, next, seen, value);
        }
        match elem {
            Scalar::F16 | Scalar::BF16 => {
                let (a, b) = (self.widened(elem, seen), self.widened(elem, value));
                self.put(format_args!("{name}.f32 {a}, {a}, {b}"));
                self.convert(Scalar::F32, elem, a, next);
            }
            _ => self.put(format_args!("{name}.{} {next}, {seen}, {value}", suffix(elem))),
        }
    }

    pub(super) fn atomic_cas(&mut self, op: &OpData, space: Space, scope: Scope) -> Result<()> {
        let (address, expected, desired) =
            (self.get(op.address())?, self.get(op.expected())?, self.get(op.desired())?);
        if expected.class == Class::Pred {
            return Err(self.unsupported(op, "an atomic on bool", "Use u32"));
        }
        let to = self.define(op.results[0]);
        let skip = self.open_predicate(op, to)?;
        let bits = to.class.bits();
        self.put(format_args!(
            "atom.relaxed.{}.{}.cas.{bits} {to}, [{address}], {expected}, {desired}",
            scope_name(scope),
            space.name()
        ));
        if let Some(label) = skip {
            self.place(label);
        }
        Ok(())
    }

    /// Jumps over what follows, with zero as the result, where the predicate is false.
    fn open_predicate(&mut self, op: &OpData, to: Reg) -> Result<Option<super::writer::Label>> {
        let Some(mask) = op.mask() else { return Ok(None) };
        let (predicate, label) = (self.get(mask)?, self.label());
        if to.class != Class::Pred {
            self.put(format_args!("mov.{} {to}, 0", to.class.bits()));
        }
        self.put(format_args!("@!{predicate} bra {label}"));
        Ok(Some(label))
    }
}
