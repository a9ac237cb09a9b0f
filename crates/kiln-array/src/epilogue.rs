//! The epilogue of a product in the kernel language: a chain of operations that is data.

use crate::plan::chain::{Along, Chain, Stage};
use kiln_ir::{BinaryOp, Literal, Scalar, UnaryOp};
use kiln_kernels::matmul::{Epilogue, TilePosition};
use kiln_lang::AnyVal;
use kiln_lang::param::{ArgSink, IntFact, KernelParam, ParamDecl, SpecKey};
use kiln_lang::prelude::*;
use kiln_runtime::{DynTensor, Result, Tensor};
use std::sync::Arc;

/// Evaluates an expression with a type for the numbers of an element type.
macro_rules! for_numbers {
    ($elem:expr, $t:ident => $body:expr) => {{
        macro_rules! of {
            ($of:ty) => {{
                type $t = $of;
                $body
            }};
        }
        match $elem {
            kiln_ir::Scalar::I32 => of!(i32),
            kiln_ir::Scalar::U32 => of!(u32),
            kiln_ir::Scalar::I64 => of!(i64),
            kiln_ir::Scalar::F16 => of!(half::f16),
            kiln_ir::Scalar::BF16 => of!(half::bf16),
            kiln_ir::Scalar::F64 => of!(f64),
            _ => of!(f32),
        }
    }};
}
pub(crate) use for_numbers;

/// A chain with what it reads.
#[derive(Clone)]
pub(crate) struct ChainEpilogue {
    chain: Arc<Chain>,
    operands: Vec<Arc<dyn Operand>>,
    numbers: Vec<Literal>,
    /// Whether it is for the transposed product, whose rows are the chain's columns.
    transposed: bool,
}

impl ChainEpilogue {
    /// The chain with its operands, as views of the ranks that it says, and its numbers.
    ///
    /// # Errors
    /// If a view is of another rank.
    pub(crate) fn new(
        chain: Arc<Chain>,
        operands: &[DynTensor],
        numbers: Vec<Literal>,
    ) -> Result<ChainEpilogue> {
        let operands = operands.iter().zip(&chain.operands).map(|(tensor, &along)| operand(tensor, along));
        let operands = operands.collect::<Result<_>>()?;
        Ok(ChainEpilogue { chain, operands, numbers, transposed: false })
    }
}

/// A tensor of any element type that an epilogue reads.
trait Operand {
    fn key(&self, key: &mut SpecKey);
    fn declare(&self, decl: &mut ParamDecl) -> Load;
    fn pack<'a>(&'a self, sink: &mut dyn ArgSink<'a>);
    fn transposed(&self) -> Arc<dyn Operand>;
}

/// Loads the elements for a tile.
type Load = Box<dyn Fn(&TilePosition) -> AnyVal>;

fn operand(tensor: &DynTensor, along: Along) -> Result<Arc<dyn Operand>> {
    for_numbers!(tensor.dtype(), T => Ok(match along {
        Along::All | Along::Rows | Along::Columns => {
            Arc::new(Numbers { values: tensor.downcast_ref::<T, 1>()?.alias(), along })
        }
        Along::Matrix | Along::Stack => {
            Arc::new(Matrices { values: tensor.downcast_ref::<T, 3>()?.alias(), along })
        }
    }))
}

/// One number, or one for each row or column.
struct Numbers<T: Elem> {
    values: Tensor<T, 1>,
    along: Along,
}

impl<T: Numeric> Operand for Numbers<T> {
    fn key(&self, key: &mut SpecKey) {
        <&Tensor<T, 1>>::key(&&self.values, key);
    }

    fn declare(&self, decl: &mut ParamDecl) -> Load {
        let view = <&Tensor<T, 1>>::declare(&&self.values, "operand", decl);
        match self.along {
            Along::Rows => Box::new(move |place| place.per_row(&view).into()),
            Along::Columns => Box::new(move |place| place.per_column(&view).into()),
            Along::All | Along::Matrix | Along::Stack => Box::new(move |place| {
                view.tile(0, 1).load(0).broadcast_to((place.shape[0], place.shape[1])).into()
            }),
        }
    }

    fn pack<'a>(&'a self, sink: &mut dyn ArgSink<'a>) {
        self.values.pack(sink);
    }

    fn transposed(&self) -> Arc<dyn Operand> {
        let along = match self.along {
            Along::Rows => Along::Columns,
            Along::Columns => Along::Rows,
            same @ (Along::All | Along::Matrix | Along::Stack) => same,
        };
        Arc::new(Numbers { values: self.values.alias(), along })
    }
}

/// A matrix for each product, or one for all.
struct Matrices<T: Elem> {
    values: Tensor<T, 3>,
    along: Along,
}

impl<T: Numeric> Operand for Matrices<T> {
    fn key(&self, key: &mut SpecKey) {
        <&Tensor<T, 3>>::key(&&self.values, key);
    }

    fn declare(&self, decl: &mut ParamDecl) -> Load {
        let view = <&Tensor<T, 3>>::declare(&&self.values, "operand", decl);
        let is_shared = self.along == Along::Matrix;
        Box::new(move |place| {
            let batch = if is_shared { val(0) } else { place.batch };
            TilePosition { batch, ..*place }.elements(&view).into()
        })
    }

    fn pack<'a>(&'a self, sink: &mut dyn ArgSink<'a>) {
        self.values.pack(sink);
    }

    fn transposed(&self) -> Arc<dyn Operand> {
        // Axes 1 and 2 are there.
        let values = self.values.swap_axes(1, 2).unwrap_or_else(|_| self.values.alias());
        Arc::new(Matrices { values, along: self.along })
    }
}

/// A chain in a kernel.
pub(crate) struct Traced {
    chain: Arc<Chain>,
    loads: Vec<Load>,
    numbers: Vec<AnyVal>,
    transposed: bool,
}

impl KernelParam for ChainEpilogue {
    type Arg = ChainEpilogue;
    type Traced = Traced;

    fn key(arg: &ChainEpilogue, key: &mut SpecKey) {
        arg.chain.identity.iter().for_each(|&word| key.word(word));
        key.word(arg.transposed.into());
        arg.operands.iter().for_each(|operand| operand.key(key));
    }

    fn declare(arg: &ChainEpilogue, _: &'static str, decl: &mut ParamDecl) -> Traced {
        let loads = arg.operands.iter().map(|operand| operand.declare(decl)).collect();
        let mut numbers = Vec::with_capacity(arg.numbers.len());
        for literal in &arg.numbers {
            numbers.push(for_numbers!(literal.elem(), T => {
                AnyVal::from(decl.scalar::<T>("number", IntFact::default()))
            }));
        }
        Traced { chain: arg.chain.clone(), loads, numbers, transposed: arg.transposed }
    }

    fn pack<'a>(arg: &'a ChainEpilogue, sink: &mut dyn ArgSink<'a>) {
        arg.operands.iter().for_each(|operand| operand.pack(sink));
        arg.numbers.iter().for_each(|&literal| sink.scalar(literal));
    }
}

impl Epilogue<f32> for ChainEpilogue {
    type Out = f32;

    fn apply(traced: &Traced, sums: Val<f32>, place: &TilePosition) -> Val<f32> {
        let chain = &traced.chain;
        let mut values: Vec<AnyVal> = Vec::with_capacity(chain.stages.len());
        for (stage, &elem) in chain.stages.iter().zip(&chain.elems) {
            let value = match stage {
                Stage::Sums => AnyVal::from(sums).cast(elem),
                Stage::Operand(operand) => traced.loads[*operand](place),
                Stage::Number(number) => traced.numbers[*number],
                Stage::Literal(literal) => AnyVal::literal(*literal),
                Stage::Index { constant, factors } => traced.index(*constant, factors, place),
                Stage::Unary(op, x) => values[*x].unary(*op),
                Stage::Binary(op, [a, b]) => combined(*op, values[*a], values[*b]),
                Stage::Compare(op, [a, b]) => values[*a].compare(*op, values[*b]),
                Stage::Select([condition, yes, no]) => values[*condition].select(values[*yes], values[*no]),
                Stage::Cast(to, x) => values[*x].cast(*to),
            };
            values.push(value);
        }
        values[chain.result].cast(Scalar::F32).typed()
    }

    fn transposed(self) -> ChainEpilogue {
        let operands = self.operands.iter().map(|operand| operand.transposed()).collect();
        ChainEpilogue { operands, transposed: !self.transposed, ..self }
    }
}

impl Traced {
    /// Multiples of the numbers of product, row and column.
    fn index(&self, constant: usize, factors: &[Option<usize>; 3], place: &TilePosition) -> AnyVal {
        let first = place.row + iota::<i64>(place.shape[0]).expand(1);
        let second = place.column + iota::<i64>(place.shape[1]).expand(0);
        let (row, column) = if self.transposed { (second, first) } else { (first, second) };
        let mut sum = self.numbers[constant];
        for (index, factor) in [place.batch, row, column].into_iter().zip(factors) {
            if let Some(factor) = factor {
                let term = AnyVal::from(index).binary(BinaryOp::Mul, self.numbers[*factor]);
                sum = sum.binary(BinaryOp::Add, term);
            }
        }
        sum
    }
}

/// An operation on two values. Of two numbers of which one is NaN the smaller and the larger are
/// NaN, as in NumPy.
fn combined(op: BinaryOp, a: AnyVal, b: AnyVal) -> AnyVal {
    let result = a.binary(op, b);
    if !(a.elem().is_float() && matches!(op, BinaryOp::Min | BinaryOp::Max)) {
        return result;
    }
    let is_nan = a.unary(UnaryOp::IsNan).binary(BinaryOp::Or, b.unary(UnaryOp::IsNan));
    is_nan.select(a.binary(BinaryOp::Add, b), result)
}
