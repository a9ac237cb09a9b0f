//! A kernel: arenas of values, operations and blocks, its parameters and how it is launched.

use crate::literal::Literal;
use crate::op::{Message, OpKind};
use crate::types::{Shape, Type};
use smallvec::SmallVec;
use std::fmt;

macro_rules! entity {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        ///
        /// ```
        #[doc = concat!("use kiln_ir::", stringify!($name), ";")]
        #[doc = concat!("let third = ", stringify!($name), "::from_index(2);")]
        #[doc = concat!("assert_eq!((third.index(), third.to_string()), (2, \"", $prefix, "2\".to_owned()));")]
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// The position in the kernel's arena.
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The entity at a position of the arena.
            pub fn from_index(index: usize) -> Self {
                Self(index as u32)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

entity!(
    /// An SSA value: a parameter, a block argument or the result of an operation.
    Value, "%"
);
entity!(
    /// An operation.
    Op, "op"
);
entity!(
    /// A straight list of operations with arguments: the body of the kernel or a region of an
    /// operation.
    Block, "block"
);

/// A place in source text. File 0, line 0 is "unknown".
///
/// ```
/// use kiln_ir::{Kernel, Level, Loc};
/// let mut kernel = Kernel::new("k", Level::Tile { warps: None });
/// let file = kernel.file("src/main.rs");
/// assert_eq!(kernel.describe(Loc { file, line: 3, column: 9 }), "src/main.rs:3:9");
/// assert_eq!(kernel.describe(Loc::default()), "unknown location");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Loc {
    /// An index into [`Kernel::files`].
    pub file: u32,
    /// The line, from 1; 0 is unknown.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

/// What is known of an integer when a kernel is specialized.
///
/// ```
/// use kiln_ir::{IntFact, parse};
/// let kernel = parse("kernel @k(%n: i64 {value=16|i32}, %m: i64 {value==7}, %l: i64) tile {\n}")?;
/// let facts: Vec<IntFact> = kernel.params.iter().map(|param| param.facts.value).collect();
/// assert_eq!(facts[0], IntFact { divisor: 16, equals: None, fits_i32: true });
/// assert_eq!((facts[1].equals, facts[2]), (Some(7), IntFact::default()));
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IntFact {
    /// A power of two that divides it; 1 if nothing is known.
    pub divisor: u32,
    /// Its value, if that is part of the specialization.
    pub equals: Option<i64>,
    /// Whether it lies in `0 ..= i32::MAX`.
    pub fits_i32: bool,
}

impl Default for IntFact {
    fn default() -> Self {
        IntFact { divisor: 1, equals: None, fits_i32: false }
    }
}

/// What is known of a parameter when a kernel is specialized.
///
/// ```
/// use kiln_ir::{Facts, parse};
/// let kernel = parse("kernel @k(%x: view<f32, 1, global> {align=16, extents=[=32], strides=[=1], span=i32}) tile {\n}")?;
/// let facts: &Facts = &kernel.params[0].facts;
/// assert_eq!((facts.align, facts.span_fits_i32), (16, true));
/// assert_eq!((facts.extents[0].equals, facts.strides[0].equals), (Some(32), Some(1)));
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Facts {
    /// A power of two that divides the base address, in bytes; 0 means the element size. Views
    /// only.
    pub align: u32,
    /// The extents, outermost first; empty means nothing known. Views only.
    pub extents: SmallVec<[IntFact; 4]>,
    /// The strides in elements, outermost first; empty means nothing known. Views only.
    pub strides: SmallVec<[IntFact; 4]>,
    /// Every element's offset from the base, in bytes, fits i32. Views only.
    pub span_fits_i32: bool,
    /// The value of an integer scalar parameter.
    pub value: IntFact,
}

/// A parameter. Its value is the argument of the body block at the same position.
///
/// At a launch, a view takes a buffer and `2 * rank` 64-bit numbers (extents and strides, in
/// elements), and a scalar takes one number (its bits, zero-extended).
///
/// ```
/// use kiln_ir::{Facts, Param, Scalar, Space, Type};
/// let param = |ty| Param { name: "x".into(), ty, mutable: false, facts: Facts::default() };
/// // Two extents and two strides; or the bits of a number.
/// assert_eq!(param(Type::view(Scalar::F32, 2, Space::Global)).numbers(), 4);
/// assert_eq!(param(Type::scalar(Scalar::F32)).numbers(), 1);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// The name the user wrote.
    pub name: String,
    /// A view of global memory, or a scalar.
    pub ty: Type,
    /// Whether the kernel may write through the view.
    pub mutable: bool,
    /// What is known of it.
    pub facts: Facts,
}

impl Param {
    /// How many 64-bit numbers the parameter takes at a launch.
    pub fn numbers(&self) -> usize {
        self.ty.as_view().map_or(1, |v| 2 * v.rank as usize)
    }
}

/// Threads of a warp of kernels over threads: of those that shuffle, vote and sum among themselves,
/// and that fragments of matrix units lie in. It is part of what these kernels mean, on every
/// device. How many threads of a device move together, and how many of them layouts of tiles count,
/// is the device's.
pub const WARP: u32 = 32;

/// What one block of the launch is.
///
/// ```
/// use kiln_ir::{Level, parse};
/// assert_eq!(parse("kernel @k() tile warps 4 {\n}")?.level, Level::Tile { warps: Some(4) });
/// assert_eq!(parse("kernel @k() thread [32, 2, 1] {\n}")?.level, Level::Thread { block: [32, 2, 1] });
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Level {
    /// A program over tiles: the backend chooses the number of warps, unless it is given.
    Tile {
        /// The number of warps of 32 threads, a power of two up to 32.
        warps: Option<u32>,
    },
    /// Threads, with these block extents: 1 to 1024 threads in all.
    Thread {
        /// The block's extents on x, y and z.
        block: [u32; 3],
    },
}

/// What a launch asks of code generation, for NVIDIA GPUs. It never changes a result, and other
/// devices ignore it.
///
/// ```
/// use kiln_ir::{LaunchHints, parse};
/// let kernel = parse("kernel @k() tile warps 4 registers 64 stages 3 {\n}")?;
/// assert_eq!(kernel.hints, LaunchHints { registers: Some(64), stages: Some(3) });
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LaunchHints {
    /// The most registers of a thread, 24 to 255; what does not fit into them is in memory. Not
    /// with tasks that have budgets of their own.
    pub registers: Option<u32>,
    /// The most tiles of a loop of products over tiles that are in shared memory or on their way
    /// to it at once, 1 to 16: the one that is used, and those that are fetched ahead. Otherwise
    /// the compiler decides.
    pub stages: Option<u32>,
}

/// An operation with its place in the data flow.
///
/// ```
/// use kiln_ir::{BinaryOp, OpData, OpKind, parse};
/// let kernel = parse("kernel @k(%n: i64) tile {\n  %0 = mul %n, %n : i64\n}")?;
/// let product: &OpData = kernel.op(kernel.block(kernel.body).ops[0]);
/// assert_eq!(product.kind, OpKind::Binary(BinaryOp::Mul));
/// assert_eq!((product.left(), product.right()), (product.operands[0], product.operands[1]));
/// assert_eq!((product.results.len(), product.regions.len()), (1, 0));
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct OpData {
    /// What it does.
    pub kind: OpKind,
    /// Its inputs.
    pub operands: SmallVec<[Value; 4]>,
    /// Its outputs.
    pub results: SmallVec<[Value; 2]>,
    /// Its regions, one block each.
    pub regions: SmallVec<[Block; 2]>,
    /// Where it stands in the user's source.
    pub loc: Loc,
}

/// A block: arguments and a list of operations, the last of which ends it (the body of a kernel has
/// no terminator).
///
/// ```
/// use kiln_ir::{BlockData, parse};
/// let kernel = parse("kernel @k(%n: i64) tile {\n  %0 = mul %n, %n : i64\n  %1 = neg %0 : i64\n}")?;
/// let body: &BlockData = kernel.block(kernel.body);
/// assert_eq!((body.args.len(), body.ops.len()), (1, 2));
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BlockData {
    /// The values it begins with.
    pub args: SmallVec<[Value; 4]>,
    /// Its operations, in order.
    pub ops: Vec<Op>,
}

/// Where a value comes from.
///
/// ```
/// use kiln_ir::{Def, parse};
/// let kernel = parse("kernel @k(%n: i64) tile {\n  %0 = mul %n, %n : i64\n}")?;
/// let (n, mul) = (kernel.block(kernel.body).args[0], kernel.block(kernel.body).ops[0]);
/// assert_eq!(kernel.def(n), Def::Arg(kernel.body, 0));
/// assert_eq!(kernel.def(kernel.result(mul)), Def::Result(mul, 0));
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Def {
    /// A result of an operation, by position.
    Result(Op, u32),
    /// An argument of a block, by position.
    Arg(Block, u32),
}

/// What a name stands for.
///
/// ```
/// use kiln_ir::{Kernel, Level, Named};
/// let kernel = Kernel::new("k", Level::Tile { warps: None });
/// // A debugger shows a host constant as it was when the kernel was recorded.
/// let shown = |what: &Named| match what {
///     Named::Value(value) => kernel.ty(*value).to_string(),
///     Named::Host(text) => text.clone(),
/// };
/// assert_eq!(shown(&Named::Host("256".to_owned())), "256");
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum Named {
    /// A value of the kernel.
    Value(Value),
    /// A constant of the host, as text.
    Host(String),
}

/// A name that stands for something from a position of a block on, until another of the same name
/// does. In nested regions too.
///
/// ```
/// use kiln_ir::{Kernel, Level, Named, Naming};
/// let mut kernel = Kernel::new("k", Level::Tile { warps: None });
/// let what = Named::Host("256".to_owned());
/// let body = kernel.body;
/// kernel.names.push(Naming { block: body, at: 0, name: "block".to_owned(), what, file: 0, lines: (3, 9) });
/// assert!(kernel.names[0].is_in_scope(0, 4) && !kernel.names[0].is_in_scope(0, 10));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Naming {
    /// The block.
    pub block: Block,
    /// The number of the operation in the block before which it begins.
    pub at: usize,
    /// The name.
    pub name: String,
    /// What it stands for.
    pub what: Named,
    /// The file that declares it, an index into [`Kernel::files`].
    pub file: u32,
    /// The first and the last line of its scope.
    pub lines: (u32, u32),
}

impl Naming {
    /// Whether a line of a file is in the name's scope.
    pub fn is_in_scope(&self, file: u32, line: u32) -> bool {
        file == self.file && (self.lines.0..=self.lines.1).contains(&line)
    }
}

/// What stands for the location of an operation that was made by no line of a user's source.
pub const UNKNOWN_LOCATION: &str = "unknown location";

/// A kernel: one function over tiles and threads.
///
/// Entities that no block reaches any more are allowed to stay in the arenas; [`Kernel::walk`]
/// visits what is live.
///
/// ```
/// use kiln_ir::*;
/// let mut kernel = Kernel::new("double", Level::Tile { warps: None });
/// let n = kernel.add_param(Param { name: "n".into(), ty: Type::scalar(Scalar::I64), mutable: false, facts: Facts::default() });
/// let (body, loc) = (kernel.body, Loc { file: kernel.file("a.rs"), line: 3, column: 5 });
/// let two = kernel.append(body, OpKind::Const(Literal::index(2)), &[], &[Type::scalar(Scalar::I64)], &[], loc);
/// let two = kernel.result(two);
/// // An operation may be made first and put into a block later.
/// let product = kernel.add_op(OpKind::Binary(BinaryOp::Mul), &[n, two], &[Type::scalar(Scalar::I64)], &[], loc);
/// kernel.block_mut(body).ops.push(product);
/// assert_eq!(kernel.op_text(product), "%1 = mul %n, %0 : i64");
/// assert_eq!(kernel.describe(kernel.op(product).loc), "a.rs:3:5");
///
/// // What is known of values and operations.
/// assert_eq!((kernel.as_const(two), kernel.as_const(n)), (Some(Literal::index(2)), None));
/// assert_eq!(kernel.defining_op(two).map(|op| &op.kind), Some(&OpKind::Const(Literal::index(2))));
/// assert_eq!((kernel.def(n), kernel.shape(n), kernel.alloc_shape(n)), (Def::Arg(body, 0), Shape::scalar(), None));
/// assert!(kernel.is_pure(product) && kernel.ty(n).is_scalar());
/// assert_eq!((kernel.counts(), kernel.block(body).ops.len()), ((3, 2, 1), 2));
///
/// // A change, and a walk over what is there.
/// kernel.op_mut(product).kind = OpKind::Binary(BinaryOp::Div);
/// assert_eq!(kernel.fault_of(product), None); // 2 is not 0
/// let mut names = Vec::new();
/// kernel.walk(|_, op| names.push(op.kind.mnemonic()));
/// assert_eq!(names, ["const", "div"]);
///
/// // A region begins as a block with arguments.
/// let region = kernel.add_block();
/// let index = kernel.add_arg(region, Type::scalar(Scalar::I32));
/// assert_eq!(kernel.block(region).args[..], [index]);
/// ```
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The name the user wrote.
    pub name: String,
    /// What a block of the launch is.
    pub level: Level,
    /// The parameters, in order.
    pub params: Vec<Param>,
    /// The body; its arguments are the parameters.
    pub body: Block,
    /// Source files that locations name.
    pub files: Vec<String>,
    /// Texts of asserts and prints, with `{}` for each value.
    pub messages: Vec<String>,
    /// Blocks of a cluster, along x: they run at once, reach each other's shared memory, and end
    /// together. 1 is none.
    pub cluster: u32,
    /// Whether a product and the sum that uses it may be rounded once, as one multiply-add. Off,
    /// every operation on floats rounds on its own, as Rust's do, and gives the same bits on every
    /// device; `Fma` is how such a kernel asks for a multiply-add.
    pub contract: bool,
    /// What the launch asks of code generation.
    pub hints: LaunchHints,
    /// Bytes of block scratch memory, set by the lowering to threads.
    pub scratch_bytes: u32,
    /// Names of the user's for values, where the kernel was recorded for a debugger. Their
    /// positions hold in the kernel as it was recorded: no pass keeps them up.
    pub names: Vec<Naming>,
    values: Vec<(Type, Def)>,
    ops: Vec<OpData>,
    blocks: Vec<BlockData>,
}

impl Kernel {
    /// An empty kernel with no parameters.
    pub fn new(name: impl Into<String>, level: Level) -> Kernel {
        Kernel {
            name: name.into(),
            level,
            params: Vec::new(),
            body: Block(0),
            files: Vec::new(),
            messages: Vec::new(),
            cluster: 1,
            contract: false,
            hints: LaunchHints::default(),
            scratch_bytes: 0,
            names: Vec::new(),
            values: Vec::new(),
            ops: Vec::new(),
            blocks: vec![BlockData::default()],
        }
    }

    /// Adds a parameter and gives its value.
    pub fn add_param(&mut self, param: Param) -> Value {
        let ty = param.ty.clone();
        self.params.push(param);
        self.add_arg(self.body, ty)
    }

    /// A new block with no arguments, in no region yet.
    pub fn add_block(&mut self) -> Block {
        self.blocks.push(BlockData::default());
        Block(self.blocks.len() as u32 - 1)
    }

    /// Appends an argument to a block.
    pub fn add_arg(&mut self, block: Block, ty: Type) -> Value {
        let position = self.blocks[block.index()].args.len() as u32;
        let value = self.add_value(ty, Def::Arg(block, position));
        self.blocks[block.index()].args.push(value);
        value
    }

    /// A new operation with results of these types, in no block yet.
    pub fn add_op(
        &mut self,
        kind: OpKind,
        operands: &[Value],
        results: &[Type],
        regions: &[Block],
        loc: Loc,
    ) -> Op {
        let op = Op(self.ops.len() as u32);
        let results = results
            .iter()
            .enumerate()
            .map(|(i, t)| self.add_value(t.clone(), Def::Result(op, i as u32)))
            .collect();
        self.ops.push(OpData {
            kind,
            operands: SmallVec::from_slice(operands),
            results,
            regions: SmallVec::from_slice(regions),
            loc,
        });
        op
    }

    /// A new operation at the end of a block.
    pub fn append(
        &mut self,
        block: Block,
        kind: OpKind,
        operands: &[Value],
        results: &[Type],
        regions: &[Block],
        loc: Loc,
    ) -> Op {
        let op = self.add_op(kind, operands, results, regions, loc);
        self.blocks[block.index()].ops.push(op);
        op
    }

    fn add_value(&mut self, ty: Type, def: Def) -> Value {
        self.values.push((ty, def));
        Value(self.values.len() as u32 - 1)
    }

    /// An operation.
    pub fn op(&self, op: Op) -> &OpData {
        &self.ops[op.index()]
    }

    /// An operation, to change.
    pub fn op_mut(&mut self, op: Op) -> &mut OpData {
        &mut self.ops[op.index()]
    }

    /// A block.
    pub fn block(&self, block: Block) -> &BlockData {
        &self.blocks[block.index()]
    }

    /// A block, to change.
    pub fn block_mut(&mut self, block: Block) -> &mut BlockData {
        &mut self.blocks[block.index()]
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        &self.values[value.index()].0
    }

    /// Where a value comes from.
    pub fn def(&self, value: Value) -> Def {
        self.values[value.index()].1
    }

    /// The operation a value is a result of.
    pub fn defining_op(&self, value: Value) -> Option<&OpData> {
        match self.def(value) {
            Def::Result(op, _) => Some(self.op(op)),
            Def::Arg(..) => None,
        }
    }

    /// The first result of an operation that has one.
    pub fn result(&self, op: Op) -> Value {
        self.op(op).results[0]
    }

    /// How many values, operations and blocks the arenas hold, live or not: the sizes of tables
    /// indexed by them.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.values.len(), self.ops.len(), self.blocks.len())
    }

    /// The literal a value is, if an operation `Const` gives it.
    pub fn as_const(&self, value: Value) -> Option<Literal> {
        if let OpKind::Const(literal) = self.defining_op(value)?.kind { Some(literal) } else { None }
    }

    /// The shape of the memory that a view is, if the kernel allocates it.
    pub fn alloc_shape(&self, view: Value) -> Option<&Shape> {
        if let OpKind::Alloc { shape, .. } = &self.defining_op(view)?.kind { Some(shape) } else { None }
    }

    /// The shape of a tile or scalar value; the empty shape for a view.
    pub fn shape(&self, value: Value) -> Shape {
        self.ty(value).as_tile().map_or_else(Shape::scalar, |t| t.shape.clone())
    }

    /// Whether an operation can be removed, merged and moved: as [`OpKind::is_pure`], and also a
    /// division by a constant other than zero or of floats.
    pub fn is_pure(&self, op: Op) -> bool {
        let data = self.op(op);
        if data.kind.divides() {
            self.ty(data.right()).elem().is_float()
                || self.as_const(data.right()).is_some_and(|l| l.is_true())
        } else {
            data.kind.is_pure()
        }
    }

    /// Calls `visit` on every live operation, outer before inner, in order.
    pub fn walk(&self, mut visit: impl FnMut(Op, &OpData)) {
        let mut stack = vec![self.block(self.body).ops.iter()];
        while let Some(ops) = stack.last_mut() {
            let Some(&op) = ops.next() else {
                stack.pop();
                continue;
            };
            let data = self.op(op);
            visit(op, data);
            // Most have none, and the loop over none is not free where this is compiled for size.
            if !data.regions.is_empty() {
                stack.extend(data.regions.iter().rev().map(|&r| self.block(r).ops.iter()));
            }
        }
    }

    /// The number of a file in [`Kernel::files`], added if it is new.
    pub fn file(&mut self, name: &str) -> u32 {
        if let Some(i) = self.files.iter().position(|f| f == name) {
            return i as u32;
        }
        self.files.push(name.to_owned());
        self.files.len() as u32 - 1
    }

    /// The number of a text in [`Kernel::messages`], added if it is new.
    pub fn message(&mut self, text: &str) -> Message {
        if let Some(i) = self.messages.iter().position(|m| m == text) {
            return Message(i as u32);
        }
        self.messages.push(text.to_owned());
        Message(self.messages.len() as u32 - 1)
    }

    /// `file:line:column` of a location, or [`UNKNOWN_LOCATION`].
    pub fn describe(&self, loc: Loc) -> String {
        match self.files.get(loc.file as usize) {
            Some(file) if loc.line > 0 => format!("{file}:{}:{}", loc.line, loc.column),
            _ => UNKNOWN_LOCATION.into(),
        }
    }
}
