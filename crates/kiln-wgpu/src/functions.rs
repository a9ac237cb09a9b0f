//! Functions of the module beside its entry point.

use crate::body::{Body, Expr};
use crate::writer::Writer;
use naga::{Expression, Function, FunctionArgument, FunctionResult, Handle, Span, Statement, Type};

impl Writer<'_> {
    /// A function of arguments with these names and types. `write` writes its body, which returns
    /// a value of the result's type; what it gives back is given back beside the function.
    pub(crate) fn function<T>(
        &mut self,
        name: &str,
        takes: &[(&str, Handle<Type>)],
        result: Handle<Type>,
        write: impl FnOnce(&mut Self, &[Expr]) -> T,
    ) -> (Handle<Function>, T) {
        let outside = std::mem::take(&mut self.body);
        self.body.function.name = Some(name.into());
        self.body.function.result = Some(FunctionResult { ty: result, binding: None });
        let mut arguments = Vec::new();
        for (index, &(name, ty)) in takes.iter().enumerate() {
            let argument = FunctionArgument { name: Some(name.into()), ty, binding: None };
            self.body.function.arguments.push(argument);
            arguments.push(self.body.add(Expression::FunctionArgument(index as u32)));
        }
        let written = write(self, &arguments);
        let function = std::mem::replace(&mut self.body, outside);
        (self.module.functions.append(Body::finish(function), Span::UNDEFINED), written)
    }

    /// What a function of the module returns for some arguments.
    pub(crate) fn call(&mut self, function: Handle<Function>, arguments: Vec<Expr>) -> Expr {
        let result = self.body.result(Expression::CallResult(function));
        self.body.push(Statement::Call { function, arguments, result: Some(result) });
        result
    }
}
