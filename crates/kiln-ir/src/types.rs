//! Types of IR values: element types, tile shapes, views of memory.

use smallvec::SmallVec;
use std::fmt;

/// An element type.
///
/// `Bool` is one byte in memory, 0 or 1. Signedness is part of the type, so no operation carries
/// it. The 8-bit floats are for [storage](Scalar::is_storage).
///
/// ```
/// use kiln_ir::Scalar;
/// assert_eq!(Scalar::BF16.bytes(), 2);
/// assert!(Scalar::I64.is_signed() && Scalar::F16.is_float());
/// assert_eq!(Scalar::from_name("u32"), Some(Scalar::U32));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Scalar {
    /// `bool`: false and true.
    Bool,
    /// Signed integers of 32 bits.
    I32,
    /// Unsigned integers of 32 bits.
    U32,
    /// Signed integers of 64 bits.
    I64,
    /// Unsigned integers of 64 bits.
    U64,
    /// Floats of 16 bits: 5 of exponent and 10 of significand, up to 65504.
    F16,
    /// Floats of 16 bits with the range of `F32`: 8 of exponent and 7 of significand.
    BF16,
    /// Floats of 32 bits.
    F32,
    /// Floats of 64 bits.
    F64,
    /// Floats of 8 bits: 4 of exponent and 3 of significand, up to 448, without infinity.
    E4M3,
    /// Floats of 8 bits: 5 of exponent and 2 of significand, up to 57344.
    E5M2,
    /// Signed integers of 8 bits.
    I8,
    /// Unsigned integers of 8 bits.
    U8,
    /// Signed integers of 16 bits.
    I16,
    /// Unsigned integers of 16 bits.
    U16,
}

impl Scalar {
    /// Every element type, in declaration order.
    pub const ALL: [Scalar; 15] = [
        Scalar::Bool,
        Scalar::I32,
        Scalar::U32,
        Scalar::I64,
        Scalar::U64,
        Scalar::F16,
        Scalar::BF16,
        Scalar::F32,
        Scalar::F64,
        Scalar::E4M3,
        Scalar::E5M2,
        Scalar::I8,
        Scalar::U8,
        Scalar::I16,
        Scalar::U16,
    ];

    /// The element types that every device computes in: all but those for
    /// [storage](Scalar::is_storage) and the [small integers](Scalar::is_small_int).
    pub const COMPUTED: [Scalar; 9] = [
        Scalar::Bool,
        Scalar::I32,
        Scalar::U32,
        Scalar::I64,
        Scalar::U64,
        Scalar::F16,
        Scalar::BF16,
        Scalar::F32,
        Scalar::F64,
    ];

    /// The size of one element in memory, in bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Scalar::Bool | Scalar::E4M3 | Scalar::E5M2 | Scalar::I8 | Scalar::U8 => 1,
            Scalar::F16 | Scalar::BF16 | Scalar::I16 | Scalar::U16 => 2,
            Scalar::I32 | Scalar::U32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::U64 | Scalar::F64 => 8,
        }
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64) || self.is_float8()
    }

    /// Whether this is an 8-bit float.
    ///
    /// ```
    /// use kiln_ir::Scalar;
    /// assert!(Scalar::E4M3.is_float8() && Scalar::E4M3.is_storage() && !Scalar::F16.is_float8());
    /// assert!(Scalar::U8.is_int() && !Scalar::Bool.is_int());
    /// assert_eq!((Scalar::BF16.name(), Scalar::BF16.accumulator()), ("bf16", Scalar::F32));
    /// assert_eq!((Scalar::I16.accumulator(), Scalar::I64.accumulator()), (Scalar::I32, Scalar::I64));
    /// ```
    pub const fn is_float8(self) -> bool {
        matches!(self, Scalar::E4M3 | Scalar::E5M2)
    }

    /// Whether this is a type of numbers in memory alone: loaded, stored, moved, converted and
    /// multiplied by matrix units, but without arithmetic or order.
    pub const fn is_storage(self) -> bool {
        self.is_float8()
    }

    /// Whether this is an integer of 8 or 16 bits. The interpreter computes in it; for other
    /// devices the compiler promotes it to 32 bits.
    ///
    /// ```
    /// use kiln_ir::Scalar;
    /// assert!(Scalar::U16.is_small_int() && !Scalar::U32.is_small_int());
    /// ```
    pub const fn is_small_int(self) -> bool {
        matches!(self, Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16)
    }

    /// Whether this is an integer type (`Bool` is not).
    pub const fn is_int(self) -> bool {
        use Scalar::{I32, I64, U32, U64};
        matches!(self, I32 | U32 | I64 | U64) || self.is_small_int()
    }

    /// Whether values of this type can be negative.
    pub const fn is_signed(self) -> bool {
        self.is_float() || matches!(self, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64)
    }

    /// The name in the text format, which is Rust's name of the type where Rust has it.
    pub const fn name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::I32 => "i32",
            Scalar::U32 => "u32",
            Scalar::I64 => "i64",
            Scalar::U64 => "u64",
            Scalar::F16 => "f16",
            Scalar::BF16 => "bf16",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
            Scalar::E4M3 => "e4m3",
            Scalar::E5M2 => "e5m2",
            Scalar::I8 => "i8",
            Scalar::U8 => "u8",
            Scalar::I16 => "i16",
            Scalar::U16 => "u16",
        }
    }

    /// The type with this name in the text format.
    pub fn from_name(name: &str) -> Option<Scalar> {
        Scalar::ALL.into_iter().find(|s| s.name() == name)
    }

    /// The type in which sums of this type are accumulated: f32 for the floats of 8 and 16 bits,
    /// i32 for the integers of 8 and 16, itself otherwise.
    pub const fn accumulator(self) -> Scalar {
        match self {
            Scalar::F16 | Scalar::BF16 | Scalar::E4M3 | Scalar::E5M2 => Scalar::F32,
            Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 => Scalar::I32,
            other => other,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The extents of a tile, outermost first. Rank 0 is a scalar.
///
/// Extents are positive. They need not be powers of two; a backend that requires those legalizes
/// tiles.
///
/// ```
/// use kiln_ir::Shape;
/// let s = Shape::new(&[4, 8]);
/// assert_eq!((s.rank(), s.len()), (2, 32));
/// assert_eq!(s.without(0), Shape::new(&[8]));
/// assert_eq!(Shape::new(&[4, 1]).broadcast(&Shape::new(&[8])), Some(Shape::new(&[4, 8])));
/// assert_eq!(s.to_string(), "[4, 8]");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Shape(SmallVec<[u32; 4]>);

impl Shape {
    /// A shape with these extents, outermost first.
    pub fn new(extents: &[u32]) -> Shape {
        Shape(SmallVec::from_slice(extents))
    }

    /// The shape of a scalar.
    ///
    /// ```
    /// use kiln_ir::Shape;
    /// let (scalar, matrix) = (Shape::scalar(), Shape::new(&[4, 8, 2]));
    /// assert_eq!((scalar.rank(), scalar.len(), scalar.is_empty()), (0, 1, false));
    /// assert_eq!(matrix.extents(), [4, 8, 2]);
    /// assert_eq!(matrix.around(1), (4, 8, 2)); // slower, along, faster
    /// ```
    pub fn scalar() -> Shape {
        Shape::default()
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The number of elements: the product of the extents, 1 for a scalar.
    pub fn len(&self) -> usize {
        self.0.iter().map(|&e| e as usize).product()
    }

    /// Whether a tile of this shape has no elements; never true for a verified kernel.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The extents, outermost first.
    pub fn extents(&self) -> &[u32] {
        &self.0
    }

    /// The shape without one axis, which must exist.
    pub fn without(&self, axis: usize) -> Shape {
        let mut e = self.0.clone();
        e.remove(axis);
        Shape(e)
    }

    /// The number of elements that vary slower than, along, and faster than `axis`.
    pub fn around(&self, axis: usize) -> (usize, usize, usize) {
        let product = |s: &[u32]| s.iter().map(|&e| e as usize).product();
        (product(&self.0[..axis]), self.0[axis] as usize, product(&self.0[axis + 1..]))
    }

    /// The shape both broadcast to by NumPy's rule (align the last axes, stretch extents of 1), if
    /// there is one.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        let rank = self.rank().max(other.rank());
        let at = |s: &Shape, i: usize| match (i + s.rank()).checked_sub(rank) {
            Some(k) => s.0[k],
            None => 1,
        };
        (0..rank)
            .map(|i| match (at(self, i), at(other, i)) {
                (a, b) if a == b => Some(a),
                (1, b) => Some(b),
                (a, 1) => Some(a),
                _ => None,
            })
            .collect::<Option<_>>()
            .map(Shape)
    }
}

impl std::ops::Index<usize> for Shape {
    type Output = u32;
    fn index(&self, axis: usize) -> &u32 {
        &self.0[axis]
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}

/// Where memory behind a view or an address lives.
///
/// ```
/// use kiln_ir::Space;
/// assert_eq!(Space::Shared.name(), "shared");
/// assert_eq!((Space::from_name("global"), Space::from_name("heap")), (Some(Space::Global), None));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Space {
    /// Device memory, visible to every program of a launch.
    Global,
    /// Memory of one block, visible to its threads.
    Shared,
    /// Memory of one thread.
    Local,
}

impl Space {
    /// The name in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            Space::Global => "global",
            Space::Shared => "shared",
            Space::Local => "local",
        }
    }

    /// The space with this name in the text format.
    pub fn from_name(name: &str) -> Option<Space> {
        [Space::Global, Space::Shared, Space::Local].into_iter().find(|s| s.name() == name)
    }
}

/// A tile: an element type and a static shape. Rank 0 is a scalar.
///
/// ```
/// use kiln_ir::{Scalar, Shape, TileType, Type};
/// let ty = Type::tile(Scalar::F32, Shape::new(&[16, 8]));
/// assert_eq!(ty.as_tile(), Some(&TileType { elem: Scalar::F32, shape: Shape::new(&[16, 8]) }));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TileType {
    /// The element type.
    pub elem: Scalar,
    /// The extents.
    pub shape: Shape,
}

/// The largest rank of a view: the most axes that bulk copies of a GPU and the packed facts of a
/// launch have room for.
///
/// ```
/// assert_eq!(kiln_ir::MAX_VIEW_RANK, 5);
/// ```
pub const MAX_VIEW_RANK: usize = 5;

/// A view of memory: a base address, and an extent and a stride (in elements) for each axis, all
/// 64-bit.
///
/// ```
/// use kiln_ir::{Scalar, Space, Type, ViewType};
/// let ty = Type::view(Scalar::F32, 2, Space::Global);
/// assert_eq!(ty.as_view(), Some(ViewType { elem: Scalar::F32, rank: 2, space: Space::Global }));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ViewType {
    /// The element type.
    pub elem: Scalar,
    /// The number of axes, at most [`MAX_VIEW_RANK`].
    pub rank: u32,
    /// Where the memory lives.
    pub space: Space,
}

/// The type of an IR value.
///
/// ```
/// use kiln_ir::{Scalar, Shape, Type};
/// let t = Type::tile(Scalar::F32, Shape::new(&[16, 8]));
/// assert_eq!(t.to_string(), "f32[16, 8]");
/// assert_eq!(Type::scalar(Scalar::I64).to_string(), "i64");
/// ```
///
/// ```
/// use kiln_ir::{Scalar, Shape, Space, Type};
/// let (number, view) = (Type::scalar(Scalar::I64), Type::view(Scalar::F16, 3, Space::Shared));
/// assert!(number.is_scalar() && !view.is_scalar());
/// assert_eq!((number.elem(), view.elem()), (Scalar::I64, Scalar::F16));
/// assert_eq!((number.as_tile().map(|tile| tile.shape.rank()), view.as_tile()), (Some(0), None));
/// assert_eq!((number.as_view(), view.as_view().map(|view| view.rank)), (None, Some(3)));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// A tile or, at rank 0, a scalar.
    Tile(TileType),
    /// A view of memory. Only parameters and `alloc` produce views: they never flow through control
    /// flow.
    View(ViewType),
}

impl Type {
    /// The type of a scalar.
    pub fn scalar(elem: Scalar) -> Type {
        Type::Tile(TileType { elem, shape: Shape::scalar() })
    }

    /// The type of a tile.
    pub fn tile(elem: Scalar, shape: Shape) -> Type {
        Type::Tile(TileType { elem, shape })
    }

    /// The type of a view.
    pub fn view(elem: Scalar, rank: u32, space: Space) -> Type {
        Type::View(ViewType { elem, rank, space })
    }

    /// The element type of a tile or view.
    pub fn elem(&self) -> Scalar {
        match self {
            Type::Tile(t) => t.elem,
            Type::View(v) => v.elem,
        }
    }

    /// The tile type, if this is one.
    pub fn as_tile(&self) -> Option<&TileType> {
        match self {
            Type::Tile(t) => Some(t),
            Type::View(_) => None,
        }
    }

    /// The view type, if this is one.
    pub fn as_view(&self) -> Option<ViewType> {
        match self {
            Type::View(v) => Some(*v),
            Type::Tile(_) => None,
        }
    }

    /// Whether this is a tile of rank 0.
    pub fn is_scalar(&self) -> bool {
        self.as_tile().is_some_and(|t| t.shape.rank() == 0)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Tile(t) if t.shape.rank() == 0 => write!(f, "{}", t.elem),
            Type::Tile(t) => write!(f, "{}{}", t.elem, t.shape),
            Type::View(v) => write!(f, "view<{}, {}, {}>", v.elem, v.rank, v.space.name()),
        }
    }
}
