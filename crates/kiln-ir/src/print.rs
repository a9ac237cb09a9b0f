//! The text format, written.
//!
//! `{kernel}` leaves out source locations, `{kernel:#}` writes them. Values are numbered in the
//! order in which they appear, so that equal kernels give equal text whatever their arenas hold;
//! parameters keep their names. The grammar:
//!
//! ```text
//! file    = { 'file' string } kernel
//! kernel  = 'kernel' '@' name '(' { param ',' } ')' level [ 'cluster' int ] [ 'scratch' int ] block
//! level   = 'tile' [ 'warps' int ] | 'thread' '[' int ',' int ',' int ']'
//! param   = value ':' [ 'mut' ] type [ '{' facts '}' ]
//! block   = '{' { op } '}'
//! op      = [ value { ',' value } '=' ] mnemonic { '.' modifier } … [ ':' type { ',' type } ] [ '@' file ':' line ':' column ] { block }
//! ```

use crate::kernel::{Block, Facts, IntFact, Kernel, Level, Op, OpData, Param, Value};
use crate::op::*;

use std::fmt::{self, Write};

/// How values are called in the text of one kernel.
pub(crate) struct Names(Vec<Option<u32>>);

impl Names {
    /// Numbers the results and block arguments of live operations in order of appearance.
    pub(crate) fn new(kernel: &Kernel) -> Names {
        let mut names = Names(vec![None; kernel.counts().0]);
        let mut next = 0;
        let mut number = |value: Value| {
            names.0[value.index()] = Some(next);
            next += 1;
        };
        // The arguments of a region stand before its operations and after those of an earlier
        // region.
        let mut stack = vec![(kernel.body, 0)];
        while let Some((block, at)) = stack.pop() {
            if at == 0 && block != kernel.body {
                kernel.block(block).args.iter().for_each(|&v| number(v));
            }
            let Some(&op) = kernel.block(block).ops.get(at) else { continue };
            stack.push((block, at + 1));
            let data = kernel.op(op);
            data.results.iter().for_each(|&v| number(v));
            stack.extend(data.regions.iter().rev().map(|&r| (r, 0)));
        }
        names
    }
}

/// Text of one kernel, or of one of its operations, on its way out.
struct Printer<'a, 'f> {
    kernel: &'a Kernel,
    names: &'a Names,
    locations: bool,
    out: &'a mut (dyn Write + 'f),
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let locations = f.alternate();
        Printer { kernel: self, names: &Names::new(self), locations, out: f }.kernel()
    }
}

impl Kernel {
    /// One operation in the text format, on one line, without its regions; values are called as in
    /// the text of the kernel.
    pub fn op_text(&self, op: Op) -> String {
        self.op_text_with(&Names::new(self), op)
    }

    pub(crate) fn op_text_with(&self, names: &Names, op: Op) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = Printer { kernel: self, names, locations: false, out: &mut text }.line(self.op(op));
        text
    }
}

impl Printer<'_, '_> {
    fn kernel(&mut self) -> fmt::Result {
        let kernel = self.kernel;
        if self.locations {
            for file in &kernel.files {
                writeln!(self.out, "file {file:?}")?;
            }
        }
        write!(self.out, "kernel @{}(", Quoted(&kernel.name))?;
        for (i, param) in kernel.params.iter().enumerate() {
            self.out.write_str(if i > 0 { ", " } else { "" })?;
            self.param(param)?;
        }
        match kernel.level {
            Level::Tile { warps: None } => self.out.write_str(") tile")?,
            Level::Tile { warps: Some(n) } => write!(self.out, ") tile warps {n}")?,
            Level::Thread { block } => write!(self.out, ") thread {block:?}")?,
        }
        if let Some(registers) = kernel.hints.registers {
            write!(self.out, " registers {registers}")?;
        }
        if let Some(stages) = kernel.hints.stages {
            write!(self.out, " stages {stages}")?;
        }
        if kernel.cluster > 1 {
            write!(self.out, " cluster {}", kernel.cluster)?;
        }
        if kernel.contract {
            self.out.write_str(" contract")?;
        }
        if kernel.scratch_bytes > 0 {
            write!(self.out, " scratch {}", kernel.scratch_bytes)?;
        }
        self.out.write_str(" ")?;
        self.block(kernel.body, 0)?;
        self.out.write_str("\n")
    }

    fn param(&mut self, param: &Param) -> fmt::Result {
        let mutable = if param.mutable { "mut " } else { "" };
        write!(self.out, "%{}: {mutable}{}", Quoted(&param.name), param.ty)?;
        let facts = facts(&param.facts);
        if facts.is_empty() { Ok(()) } else { write!(self.out, " {{{}}}", facts.join(", ")) }
    }

    /// A block in braces; the cursor stands where the opening brace goes.
    fn block(&mut self, block: Block, indent: usize) -> fmt::Result {
        self.out.write_str("{\n")?;
        for &op in &self.kernel.block(block).ops {
            let data = self.kernel.op(op);
            write!(self.out, "{:1$}", "", 2 * indent + 2)?;
            self.line(data)?;
            self.regions(data, indent + 1)?;
            self.out.write_str("\n")?;
        }
        write!(self.out, "{:1$}}}", "", 2 * indent)
    }

    fn regions(&mut self, data: &OpData, indent: usize) -> fmt::Result {
        for (i, &region) in data.regions.iter().enumerate() {
            match data.kind.control_flow().filter(|_| i == 1) {
                Some(ControlFlow::If) => self.out.write_str(" else ")?,
                Some(ControlFlow::While) => {
                    self.out.write_str(" do (")?;
                    self.values(&self.kernel.block(region).args)?;
                    self.out.write_str(") ")?;
                }
                Some(ControlFlow::For | ControlFlow::FaultRegion | ControlFlow::Tasks) | None => {
                    self.out.write_str(" ")?;
                }
            }
            self.block(region, indent)?;
        }
        Ok(())
    }

    /// Everything of an operation but its regions.
    fn line(&mut self, data: &OpData) -> fmt::Result {
        if !data.results.is_empty() {
            self.values(&data.results)?;
            self.out.write_str(" = ")?;
        }
        self.out.write_str(data.kind.mnemonic())?;
        self.modifiers(&data.kind)?;
        self.operands(data)?;
        for (i, &result) in data.results.iter().enumerate() {
            let separator = if i == 0 { " : " } else { ", " };
            write!(self.out, "{separator}{}", self.kernel.ty(result))?;
        }
        if self.locations && data.loc.line > 0 {
            write!(self.out, " @{}:{}:{}", data.loc.file, data.loc.line, data.loc.column)?;
        }
        Ok(())
    }

    fn modifiers(&mut self, kind: &OpKind) -> fmt::Result {
        match kind {
            OpKind::Reduce { op, .. } => write!(self.out, ".{}", op.name()),
            OpKind::Scan { op, reverse, exclusive, .. } => {
                write!(self.out, ".{}", op.name())?;
                self.flag(*reverse, "reverse")?;
                self.flag(*exclusive, "exclusive")
            }
            OpKind::DeferFault { together, .. } => self.flag(*together, "together"),
            OpKind::Dot(precision) => self.flag(*precision != Precision::Full, precision.name()),
            OpKind::Load(reuse) => self.reuse(*reuse),
            OpKind::Store { reuse, disjoint } => {
                self.reuse(*reuse)?;
                self.flag(*disjoint, "disjoint")
            }
            OpKind::Gather { bounds, .. } => write!(self.out, ".{}", bounds.name()),
            OpKind::Scatter { bounds, asynchronous, .. } => {
                write!(self.out, ".{}", bounds.name())?;
                self.flag(*asynchronous, "async")
            }
            OpKind::Atomic { op, scope, bounds, .. } => {
                write!(self.out, ".{}.{}.{}", op.name(), scope.name(), bounds.name())
            }
            OpKind::AtomicCas { scope, bounds } => write!(self.out, ".{}.{}", scope.name(), bounds.name()),
            OpKind::Fence(scope) => write!(self.out, ".{}", scope.name()),
            OpKind::OrderedLoad { order, scope, bounds } | OpKind::OrderedStore { order, scope, bounds } => {
                write!(self.out, ".{}.{}.{}", order.name(), scope.name(), bounds.name())
            }
            OpKind::LoadQuad(bounds) | OpKind::StoreQuad(bounds) => write!(self.out, ".{}", bounds.name()),
            OpKind::Atomic128 { scope, .. } => write!(self.out, ".{}", scope.name()),
            OpKind::PtrAtomic128 { space, scope, .. } => {
                write!(self.out, ".{}.{}", scope.name(), space.name())
            }
            OpKind::PtrOrderedLoad { space, lanes, order, scope, .. }
            | OpKind::PtrOrderedStore { space, lanes, order, scope, .. } => {
                write!(self.out, ".{}.{}.{}.x{lanes}", order.name(), scope.name(), space.name())
            }
            OpKind::Linear { op, .. } => self.linear_modifiers(*op),
            OpKind::Shuffle(mode) => write!(self.out, ".{}", mode.name()),
            OpKind::Vote(mode) => write!(self.out, ".{}", mode.name()),
            OpKind::Clock(unit) => write!(self.out, ".{}", unit.name()),
            OpKind::PtrLoad { space, lanes, reuse, .. } | OpKind::PtrStore { space, lanes, reuse, .. } => {
                write!(self.out, ".{}.x{lanes}", space.name())?;
                self.reuse(*reuse)
            }
            OpKind::PtrAtomic { space, op, scope, .. } => {
                write!(self.out, ".{}.{}.{}", op.name(), scope.name(), space.name())
            }
            OpKind::PtrAtomicCas { space, scope, .. } => {
                write!(self.out, ".{}.{}", scope.name(), space.name())
            }
            OpKind::Const(_)
            | OpKind::Iota
            | OpKind::ProgramId(_)
            | OpKind::NumPrograms(_)
            | OpKind::ThreadId(_)
            | OpKind::BlockDim(_)
            | OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Compare(_)
            | OpKind::Select
            | OpKind::Fma
            | OpKind::Cast
            | OpKind::Bitcast
            | OpKind::Broadcast
            | OpKind::Reshape
            | OpKind::Transpose(_)
            | OpKind::Extent(_)
            | OpKind::Stride(_)
            | OpKind::Alloc { .. }
            | OpKind::Barrier
            | OpKind::WarpBarrier
            | OpKind::GridBarrier
            | OpKind::BlockUniform
            | OpKind::Cluster(_)
            | OpKind::AsyncCopy(_)
            | OpKind::Sleep
            | OpKind::If
            | OpKind::For
            | OpKind::While
            | OpKind::Yield
            | OpKind::Condition
            | OpKind::FaultRegion
            | OpKind::Assert(_)
            | OpKind::InlinePtx(_)
            | OpKind::Print(_)
            | OpKind::Explicit(_)
            | OpKind::Fragment(_)
            | OpKind::Address
            | OpKind::Scratch { .. }
            | OpKind::CheckBounds
            | OpKind::CheckDivisor
            | OpKind::BlockCheck(_)
            | OpKind::Faulted => Ok(()),
        }
    }

    fn linear_modifiers(&mut self, op: LinearOp) -> fmt::Result {
        match op {
            LinearOp::Load { lanes, reuse } => {
                write!(self.out, ".x{lanes}")?;
                self.reuse(reuse)
            }
            LinearOp::Store { lanes, reuse, asynchronous } => {
                write!(self.out, ".x{lanes}")?;
                self.reuse(reuse)?;
                self.flag(asynchronous, "async")
            }
            LinearOp::Atomic { op, scope } => write!(self.out, ".{}.{}", op.name(), scope.name()),
            LinearOp::AtomicCas { scope } => write!(self.out, ".{}", scope.name()),
            LinearOp::OrderedLoad { order, scope } | LinearOp::OrderedStore { order, scope } => {
                write!(self.out, ".{}.{}", order.name(), scope.name())
            }
            LinearOp::Address => Ok(()),
        }
    }

    fn operands(&mut self, data: &OpData) -> fmt::Result {
        let operands = &data.operands[..];
        match &data.kind {
            OpKind::Const(literal) => write!(self.out, " {literal}"),
            OpKind::ProgramId(axis)
            | OpKind::NumPrograms(axis)
            | OpKind::ThreadId(axis)
            | OpKind::BlockDim(axis) => {
                write!(self.out, " {}", axis.name())
            }
            OpKind::Transpose(perm) => {
                self.list(" ", operands)?;
                write!(self.out, " {perm}")
            }
            OpKind::Reduce { axis, .. }
            | OpKind::Scan { axis, .. }
            | OpKind::Extent(axis)
            | OpKind::Stride(axis) => {
                self.list(" ", operands)?;
                write!(self.out, " axis {axis}")
            }
            OpKind::Alloc { space, elem, shape } => write!(self.out, " {} {elem}{shape}", space.name()),
            OpKind::Scratch { offset } => write!(self.out, " {offset}"),
            OpKind::Assert(message)
            | OpKind::BlockCheck(Check::Assert(message))
            | OpKind::DeferFault { check: Check::Assert(message), .. } => {
                self.list(" ", operands.get(..1).unwrap_or_default())?;
                self.message(", ", *message)?;
                self.list(", ", operands.get(1..).unwrap_or_default())
            }
            OpKind::Print(message) | OpKind::InlinePtx(message) => {
                self.message(" ", *message)?;
                self.list(", ", operands)
            }
            OpKind::Explicit(op) => {
                self.list(" ", operands)?;
                op.attributes().iter().try_for_each(|(word, number)| write!(self.out, " {word} {number}"))
            }
            OpKind::AsyncCopy(op) => {
                self.list(" ", operands)?;
                op.attributes().iter().try_for_each(|(word, number)| write!(self.out, " {word} {number}"))
            }
            OpKind::Fragment(op) => {
                self.list(" ", operands)?;
                op.attributes().iter().try_for_each(|(word, number)| write!(self.out, " {word} {number}"))
            }
            OpKind::For => self.for_header(data),
            OpKind::While => {
                self.out.write_str(" (")?;
                self.bindings(data.regions.first().copied(), 0, operands)?;
                self.out.write_str(")")
            }
            OpKind::Load(_)
            | OpKind::Store { .. }
            | OpKind::Gather { .. }
            | OpKind::Scatter { .. }
            | OpKind::Atomic { .. }
            | OpKind::AtomicCas { .. }
            | OpKind::OrderedLoad { .. }
            | OpKind::OrderedStore { .. }
            | OpKind::LoadQuad(_)
            | OpKind::StoreQuad(_)
            | OpKind::Atomic128 { .. }
            | OpKind::Linear { .. }
            | OpKind::PtrLoad { .. }
            | OpKind::PtrStore { .. }
            | OpKind::PtrAtomic { .. }
            | OpKind::PtrAtomicCas { .. }
            | OpKind::PtrOrderedLoad { .. }
            | OpKind::PtrOrderedStore { .. }
            | OpKind::PtrAtomic128 { .. } => self.access(data),
            OpKind::Iota
            | OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Compare(_)
            | OpKind::Select
            | OpKind::Fma
            | OpKind::Cast
            | OpKind::Bitcast
            | OpKind::Broadcast
            | OpKind::Reshape
            | OpKind::Dot(_)
            | OpKind::Fence(_)
            | OpKind::Barrier
            | OpKind::WarpBarrier
            | OpKind::GridBarrier
            | OpKind::Shuffle(_)
            | OpKind::Vote(_)
            | OpKind::BlockUniform
            | OpKind::Cluster(_)
            | OpKind::Clock(_)
            | OpKind::Sleep
            | OpKind::If
            | OpKind::Yield
            | OpKind::Condition
            | OpKind::FaultRegion
            | OpKind::Address
            | OpKind::CheckBounds
            | OpKind::CheckDivisor
            | OpKind::BlockCheck(_)
            | OpKind::DeferFault { .. }
            | OpKind::Faulted => self.list(" ", operands),
        }
    }

    /// `view[indices] where mask pad x = values`, as far as the operation has them.
    fn access(&mut self, data: &OpData) -> fmt::Result {
        if data.kind.info().operands.first.contains(&Operand::View) {
            self.list(" ", data.named(Operand::View))?;
            self.out.write_str("[")?;
            self.values(data.coordinates())?;
            self.out.write_str("]")?;
        } else {
            self.list(" ", data.named(Operand::Address))?;
        }
        self.list(" where ", data.named(Operand::Mask))?;
        self.list(" pad ", data.named(Operand::Padding))?;
        self.list(" = ", data.stored_values())?;
        self.list(" = ", data.named(Operand::Expected))?;
        self.list(" -> ", data.named(Operand::Desired))
    }

    fn for_header(&mut self, data: &OpData) -> fmt::Result {
        let bounds = data.operands.get(..3).unwrap_or_default();
        let region = data.regions.first().copied();
        self.out.write_str(" ")?;
        match region.and_then(|r| self.kernel.block(r).args.first()) {
            Some(&iv) => self.value(iv)?,
            None => self.out.write_str("%?")?,
        }
        for (word, &bound) in [" = ", " to ", " step "].into_iter().zip(bounds) {
            self.out.write_str(word)?;
            self.value(bound)?;
        }
        if data.operands.len() > 3 {
            self.out.write_str(" carry (")?;
            self.bindings(region, 1, &data.operands[3..])?;
            self.out.write_str(")")?;
        }
        Ok(())
    }

    /// `arg = init` for the arguments of a region from `first` on.
    fn bindings(&mut self, region: Option<Block>, first: usize, inits: &[Value]) -> fmt::Result {
        for (i, &init) in inits.iter().enumerate() {
            self.out.write_str(if i > 0 { ", " } else { "" })?;
            match region.and_then(|r| self.kernel.block(r).args.get(first + i)) {
                Some(&arg) => self.value(arg)?,
                None => self.out.write_str("%?")?,
            }
            self.out.write_str(" = ")?;
            self.value(init)?;
        }
        Ok(())
    }

    fn list(&mut self, before: &str, values: &[Value]) -> fmt::Result {
        if values.is_empty() {
            return Ok(());
        }
        self.out.write_str(before)?;
        self.values(values)
    }

    fn values(&mut self, values: &[Value]) -> fmt::Result {
        for (i, &value) in values.iter().enumerate() {
            self.out.write_str(if i > 0 { ", " } else { "" })?;
            self.value(value)?;
        }
        Ok(())
    }

    fn value(&mut self, value: Value) -> fmt::Result {
        let params = &self.kernel.block(self.kernel.body).args;
        if let Some(at) = params.iter().position(|&p| p == value) {
            return match self.kernel.params.get(at) {
                Some(param) => write!(self.out, "%{}", Quoted(&param.name)),
                None => self.out.write_str("%?"),
            };
        }
        match self.names.0.get(value.index()) {
            Some(Some(number)) => write!(self.out, "%{number}"),
            _ => self.out.write_str("%?"),
        }
    }

    fn message(&mut self, before: &str, message: Message) -> fmt::Result {
        let text = self.kernel.messages.get(message.0 as usize);
        write!(self.out, "{before}{:?}", text.map_or("", String::as_str))
    }

    fn reuse(&mut self, reuse: Reuse) -> fmt::Result {
        self.flag(reuse != Reuse::Normal, reuse.name())
    }

    fn flag(&mut self, set: bool, name: &str) -> fmt::Result {
        if set { write!(self.out, ".{name}") } else { Ok(()) }
    }
}

fn facts(facts: &Facts) -> Vec<String> {
    let list = |name: &str, facts: &[IntFact]| {
        let facts: Vec<String> = facts.iter().map(int_fact).collect();
        format!("{name}=[{}]", facts.join(", "))
    };
    let mut all = Vec::new();
    if facts.align != 0 {
        all.push(format!("align={}", facts.align));
    }
    if !facts.extents.is_empty() {
        all.push(list("extents", &facts.extents));
    }
    if !facts.strides.is_empty() {
        all.push(list("strides", &facts.strides));
    }
    if facts.span_fits_i32 {
        all.push("span=i32".into());
    }
    if facts.value != IntFact::default() {
        all.push(format!("value={}", int_fact(&facts.value)));
    }
    all
}

/// `divisor|i32|=value`, as far as known; `_` if nothing is.
fn int_fact(fact: &IntFact) -> String {
    let mut parts = Vec::new();
    if fact.divisor != 1 {
        parts.push(fact.divisor.to_string());
    }
    if fact.fits_i32 {
        parts.push("i32".into());
    }
    if let Some(value) = fact.equals {
        parts.push(format!("={value}"));
    }
    if parts.is_empty() { "_".into() } else { parts.join("|") }
}

/// A name as it stands if it is an identifier (dots allowed), else as a string.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = self.0.chars();
        let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        if starts && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.') {
            f.write_str(self.0)
        } else {
            write!(f, "{:?}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::*;

    fn view(name: &str, mutable: bool) -> Param {
        let ty = Type::view(Scalar::F32, 1, Space::Global);
        Param { name: name.into(), ty, mutable, facts: Facts::default() }
    }

    #[test]
    fn a_kernel_reads_as_its_operations() {
        let mut kernel = Kernel::new("scale", Level::Tile { warps: Some(4) });
        let x = kernel.add_param(view("x", false));
        let y = kernel.add_param(view("odd name", true));
        kernel.params[0].facts = Facts {
            align: 16,
            extents: [IntFact { divisor: 16, equals: Some(32), fits_i32: true }].into_iter().collect(),
            strides: [IntFact::default()].into_iter().collect(),
            span_fits_i32: true,
            ..Facts::default()
        };
        let file = kernel.file("a.rs");
        let mut b = Builder::new(&mut kernel);
        let at = b.program_id(Axis::X);
        let zero = b.constant(Literal::f32(0.0));
        b.loc = Loc { file, line: 3, column: 9 };
        let v = b.load(x, &[at], zero, Shape::new(&[8]), Reuse::Streaming);
        b.store(y, &[at], v, Reuse::Normal, true);
        let head = "kernel @scale(%x: view<f32, 1, global> {align=16, extents=[16|i32|=32], strides=[_], span=i32}, \
                    %\"odd name\": mut view<f32, 1, global>) tile warps 4 {\n";
        let plain = format!(
            "{head}  %0 = program_id x : i64\n  %1 = const 0.0 : f32\n  %2 = load.streaming %x[%0] pad %1 : f32[8]\n  \
             store.disjoint %\"odd name\"[%0] = %2\n}}\n"
        );
        assert_eq!(kernel.to_string(), plain);
        let located = format!("{kernel:#}");
        assert!(located.starts_with("file \"a.rs\"\nkernel"), "{located}");
        assert!(located.contains("pad %1 : f32[8] @0:3:9\n"), "{located}");
    }

    #[test]
    fn loops_number_their_arguments_in_order_of_appearance() {
        let mut kernel = Kernel::new("k", Level::Thread { block: [32, 2, 1] });
        let mut b = Builder::new(&mut kernel);
        let n = b.index(3);
        let body = b.kernel.add_block();
        let iv = b.kernel.add_arg(body, Type::scalar(Scalar::I64));
        let acc = b.kernel.add_arg(body, Type::scalar(Scalar::I64));
        b.block = body;
        let next = b.binary(BinaryOp::Add, acc, iv);
        b.yield_(&[next]);
        let loc = Loc::default();
        let top = kernel.body;
        kernel.append(top, OpKind::For, &[n, n, n, n], &[Type::scalar(Scalar::I64)], &[body], loc);
        assert_eq!(
            kernel.to_string(),
            "kernel @k() thread [32, 2, 1] {\n  %0 = const 3 : i64\n  \
             %1 = for %2 = %0 to %0 step %0 carry (%3 = %0) : i64 {\n    \
             %4 = add %3, %2 : i64\n    yield %4\n  }\n}\n"
        );
    }

    #[test]
    fn malformed_operations_print_too() {
        let mut kernel = Kernel::new("k", Level::Tile { warps: None });
        let body = kernel.body;
        for kind in [OpKind::For, OpKind::While, OpKind::Load(Reuse::Normal), OpKind::Assert(Message(9))] {
            kernel.append(body, kind, &[], &[], &[], Loc::default());
        }
        assert!(kernel.to_string().contains("for %?"));
    }
}
