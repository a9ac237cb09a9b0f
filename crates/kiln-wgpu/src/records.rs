//! Functions of the module that begin the records of a report. The entry point calls one where a
//! thread faults or prints, and adds the values.

use crate::body::Expr;
use crate::report::{PRINT_HEADER, Word};
use crate::threads::VECTOR;
use crate::writer::Writer;
use kiln_backend::Result;
use naga::{
    AddressSpace, AtomicFunction, BinaryOperator as B, Expression, Function, GlobalVariable, Handle, Literal,
    MathFunction, ResourceBinding, Scalar, Span, Statement, StorageAccess,
};

impl Writer<'_> {
    /// Declares the report's buffer at a binding.
    pub(crate) fn declare_report(&mut self, binding: u32) {
        let ty = self.array_type(Scalar::U32, true, None);
        let access = StorageAccess::LOAD | StorageAccess::STORE;
        let report = GlobalVariable {
            name: Some("report".into()),
            space: AddressSpace::Storage { access },
            binding: Some(ResourceBinding { group: 0, binding }),
            ty,
            init: None,
            memory_decorations: naga::MemoryDecorations::empty(),
        };
        self.report = Some(self.module.global_variables.append(report, Span::UNDEFINED));
    }

    /// The report's words, as a pointer.
    pub(crate) fn report(&mut self) -> Result<Expr> {
        let report = self.report.ok_or_else(|| self.internal("there is no report".into()))?;
        Ok(self.body.add(Expression::GlobalVariable(report)))
    }

    /// The first arguments of the functions below: site, program, block and thread.
    pub(crate) fn origin(&mut self, site: Expr) -> Result<Vec<Expr>> {
        let program = self.program_number()?;
        Ok(vec![site, program, self.program()?, self.thread_indices()?])
    }

    /// A function of an origin and maybe a number more.
    fn record_function(
        &mut self,
        name: &str,
        more: Option<&str>,
        result: Scalar,
        write: impl FnOnce(&mut Self, &[Expr]) -> Result<()>,
    ) -> Result<Handle<Function>> {
        let (word, triple) = (self.scalar_type(Scalar::U32), self.type_of(VECTOR));
        let ty = self.scalar_type(result);
        let origin = [("site", word), ("program", word), ("block", triple), ("thread", triple)];
        let takes: Vec<_> = origin.into_iter().chain(more.map(|name| (name, word))).collect();
        let (function, written) = self.function(name, &takes, ty, write);
        written.map(|()| function)
    }

    fn return_value(&mut self, value: Literal) {
        let value = self.body.literal(value);
        self.body.push(Statement::Return { value: Some(value) });
    }

    /// The function that claims the record of the fault: whether this thread is the first.
    pub(crate) fn claim_function(&mut self) -> Result<Handle<Function>> {
        if let Some(function) = self.claim_function {
            return Ok(function);
        }
        let function = self.record_function("claim_fault", None, Scalar::BOOL, |w, arguments| {
            let report = w.report()?;
            let claimed = w.body.member(report, Word::Claimed as u32);
            let (zero, one) = (w.body.u32(0), w.body.u32(1));
            let exchange = AtomicFunction::Exchange { compare: None };
            let old = w.atomic_word(claimed, exchange, one);
            let taken = w.body.binary(B::NotEqual, old, zero);
            let outer = w.body.begin();
            w.return_value(Literal::Bool(false));
            let accept = w.body.end(outer);
            w.body.branch(taken, accept, naga::Block::new());
            let program = w.body.u32(Word::Program as u32);
            w.store_origin(report, program, arguments);
            w.return_value(Literal::Bool(true));
            Ok(())
        })?;
        self.claim_function = Some(function);
        Ok(function)
    }

    /// Stores program, site, block and thread.
    fn store_origin(&mut self, report: Expr, first: Expr, arguments: &[Expr]) {
        let &[site, program, block, thread, ..] = arguments else { return };
        let mut words = vec![program, site];
        for triple in [block, thread] {
            words.extend((0..3).map(|axis| self.body.member(triple, axis)));
        }
        for (i, word) in words.into_iter().enumerate() {
            let more = self.body.u32(i as u32);
            let at = self.body.binary(B::Add, first, more);
            let pointer = self.body.element(report, at);
            self.body.store(pointer, word);
        }
    }

    /// The function that begins the record of a print with a number of words of values: the first
    /// of these words, or 0 where there is no room.
    pub(crate) fn print_function(&mut self) -> Result<Handle<Function>> {
        if let Some(function) = self.print_function {
            return Ok(function);
        }
        let function = self.record_function("begin_print", Some("words"), Scalar::U32, |w, arguments| {
            let report = w.report()?;
            let &[.., words] = arguments else { return Err(w.internal("a print has no words".into())) };
            let end = w.body.member(report, Word::PrintEnd as u32);
            let (header, first) = (w.body.u32(PRINT_HEADER), w.body.u32(Word::Prints as u32));
            let length = w.body.add(Expression::ArrayLength(report));
            let capacity = w.body.binary(B::Subtract, length, first);
            let needed = w.body.binary(B::Add, header, words);
            // Once the buffer is full nothing is added to the end, which cannot overflow then.
            let seen = w.body.load(end);
            let seen = w.body.math(MathFunction::Min, &[seen, capacity]);
            let room = w.body.binary(B::Subtract, capacity, seen);
            let is_full = w.body.binary(B::Less, room, needed);
            w.lose_print_if(is_full, report);
            let at = w.atomic_word(end, AtomicFunction::Add, needed);
            let behind = w.body.binary(B::Add, at, needed);
            let is_full = w.body.binary(B::Greater, behind, capacity);
            w.lose_print_if(is_full, report);
            let at = w.body.binary(B::Add, first, at);
            w.store_origin(report, at, arguments);
            let values = w.body.binary(B::Add, at, header);
            w.body.push(Statement::Return { value: Some(values) });
            Ok(())
        })?;
        self.print_function = Some(function);
        Ok(function)
    }

    /// Counts a print that finds no room.
    fn lose_print_if(&mut self, is_full: Expr, report: Expr) {
        let outer = self.body.begin();
        let lost = self.body.member(report, Word::PrintsLost as u32);
        let one = self.body.u32(1);
        self.atomic_word(lost, AtomicFunction::Add, one);
        self.return_value(Literal::U32(0));
        let accept = self.body.end(outer);
        self.body.branch(is_full, accept, naga::Block::new());
    }
}
