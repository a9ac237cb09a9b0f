//! The variable that holds the parameter block: immediates, or else a uniform buffer.

use crate::body::Expr;
use crate::parameters::{Field, Parameter, Parameters, read};
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::Scalar as Elem;
use naga::{AddressSpace, GlobalVariable, ResourceBinding, Scalar, Span, StructMember, Type, TypeInner};

impl Writer<'_> {
    /// Declares the block and loads its fields. In a uniform buffer it has the binding.
    pub(crate) fn declare_parameters(&mut self, binding: u32, reports: bool) -> Result<()> {
        let (mut fields, mut members, mut scalars) = (Vec::new(), Vec::new(), Vec::new());
        let mut end = 0u32;
        for parameter in read(self.kernel, reports) {
            let (name, scalar) = self.field(parameter)?;
            let bytes = u32::from(scalar.width);
            let offset = end.next_multiple_of(bytes);
            end = offset + bytes;
            let ty = self.scalar_type(scalar);
            members.push(StructMember { name: Some(name.clone()), ty, binding: None, offset });
            fields.push(Field { parameter, name, offset, bytes });
            scalars.push(scalar);
        }
        let widest = fields.iter().map(|field| field.bytes).max().unwrap_or(4);
        let span = end.next_multiple_of(widest);
        self.parameters = Parameters { fields, values: Vec::new(), size: span };
        let ty = Type { name: Some("Parameters".into()), inner: TypeInner::Struct { members, span } };
        let ty = self.module.types.insert(ty, Span::UNDEFINED);
        let (space, binding) = match self.parameters.are_immediate(self.features) {
            true => (AddressSpace::Immediate, None),
            false => (AddressSpace::Uniform, Some(ResourceBinding { group: 0, binding })),
        };
        let block = self.module.global_variables.append(
            GlobalVariable {
                name: Some("parameters".into()),
                space,
                binding,
                ty,
                init: None,
                memory_decorations: naga::MemoryDecorations::empty(),
            },
            Span::UNDEFINED,
        );
        let block = self.body.add(naga::Expression::GlobalVariable(block));
        for i in 0..self.parameters.fields.len() {
            let pointer = self.body.member(block, i as u32);
            let value = self.body.load(pointer);
            self.body.name(value, self.parameters.fields[i].name.clone());
            self.parameters.values.push(value);
        }
        Ok(())
    }

    /// The name and type of a field.
    fn field(&self, parameter: Parameter) -> Result<(String, Scalar)> {
        let name = |i: usize| &self.kernel.params[i].name;
        let index = self.index_scalar();
        Ok(match parameter {
            Parameter::Offset(i) => (format!("{}_offset", name(i)), Scalar::U32),
            Parameter::Extent(i, axis) => (format!("{}_extent_{axis}", name(i)), index),
            Parameter::Stride(i, axis) => (format!("{}_stride_{axis}", name(i)), index),
            Parameter::Scalar(i) => {
                let elem = self.kernel.params[i].ty.elem();
                let scalar = self.require(None, elem)?;
                // Bools and types of 8 and 16 bits are bits of a word.
                (name(i).clone(), if elem.bytes() < 4 { Scalar::U32 } else { scalar })
            }
            Parameter::Grid(axis) => (format!("grid_{axis}"), Scalar::U32),
            Parameter::Fold => ("fold".into(), Scalar::U32),
            Parameter::Program => ("program_number".into(), Scalar::U32),
        })
    }

    /// The value of a field that the kernel reads.
    pub(crate) fn parameter(&self, parameter: Parameter) -> Option<Expr> {
        let at = self.parameters.fields.iter().position(|field| field.parameter == parameter)?;
        self.parameters.values.get(at).copied()
    }

    /// Defines the scalar parameters as values of the kernel.
    pub(crate) fn define_scalars(&mut self) {
        let args = self.kernel.block(self.kernel.body).args.clone();
        for (i, &arg) in args.iter().enumerate() {
            let Some(field) = self.parameter(Parameter::Scalar(i)) else { continue };
            let elem = self.kernel.params[i].ty.elem();
            let small = elem.bytes() < 4;
            let value = match small {
                true if elem == Elem::Bool => {
                    let zero = self.body.u32(0);
                    self.body.binary(naga::BinaryOperator::NotEqual, field, zero)
                }
                true => self.unpack(field, elem),
                false => field,
            };
            self.define(arg, value);
        }
    }
}
