//! Kernels with arguments: what a GPU must compute as the interpreter does, and what ptxas must
//! assemble.

use kiln_ir::{Facts, IntFact, Kernel, Param, ReduceOp, Scalar, parse};

/// A kernel in the text format, whose parameters are views, and the arguments of one launch.
#[derive(Clone)]
pub struct Case {
    pub name: String,
    pub text: String,
    pub grid: [u32; 3],
    pub views: Vec<View>,
    /// How far floats may be from the reference, relative to its magnitude or 1, whichever is
    /// larger.
    pub tolerance: f64,
}

/// A dense view of a buffer of its own.
#[derive(Clone)]
pub struct View {
    pub elem: Scalar,
    pub extents: Vec<u64>,
    pub fill: Fill,
}

/// What a buffer begins with.
#[derive(Clone, Copy)]
pub enum Fill {
    /// Floats from -4 to 4, integers of every size, both signs.
    Random,
    /// Integers from 0 up to a bound.
    Below(u64),
    /// A pattern that no kernel writes.
    Poison,
    Zero,
}

pub fn view(elem: Scalar, extents: &[u64], fill: Fill) -> View {
    View { elem, extents: extents.to_vec(), fill }
}

impl Case {
    pub fn new(name: impl Into<String>, grid: u32, views: Vec<View>, text: impl Into<String>) -> Case {
        Case { name: name.into(), text: text.into(), grid: [grid, 1, 1], views, tolerance: 0.0 }
    }

    pub fn within(self, tolerance: f64) -> Case {
        Case { tolerance, ..self }
    }

    /// The kernel, with or without the facts that a runtime would have of its arguments.
    pub fn kernel(&self, facts: bool) -> Result<Kernel, String> {
        let mut kernel = parse(&self.text).map_err(|e| format!("{}: {e:?}\n{}", self.name, self.text))?;
        if facts {
            kernel
                .params
                .iter_mut()
                .zip(&self.views)
                .for_each(|(param, view)| set_facts(param, &view.extents));
        }
        Ok(kernel)
    }
}

/// The facts of a dense view.
fn set_facts(param: &mut Param, extents: &[u64]) {
    let fact = |n: &u64| IntFact {
        divisor: 1 << n.trailing_zeros().min(4),
        equals: (*n == 1).then_some(1),
        fits_i32: true,
    };
    param.facts = Facts {
        align: 256,
        extents: extents.iter().map(fact).collect(),
        strides: strides(extents).iter().map(fact).collect(),
        span_fits_i32: true,
        ..Facts::default()
    };
}

/// Row-major strides.
pub fn strides(extents: &[u64]) -> Vec<u64> {
    (0..extents.len()).map(|axis| extents[axis + 1..].iter().product()).collect()
}

/// Every case.
pub fn all() -> Vec<Case> {
    let families =
        [whole_kernels(), functions(), integers(), casts(), reductions(), scans(), thread_kernels()];
    families.into_iter().flatten().collect()
}

const FLOATS: [Scalar; 4] = [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64];
const INTEGERS: [Scalar; 4] = [Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64];

/// A literal of the type: `n` or `n.0`.
fn number(elem: Scalar, n: u32) -> String {
    match elem {
        Scalar::Bool => (n != 0).to_string(),
        e if e.is_float() => format!("{n}.0"),
        _ => n.to_string(),
    }
}

pub fn add(tile: u32, n: u64) -> Case {
    let text = format!(
        "kernel @add_{tile}(%x: view<f32, 1, global>, %y: view<f32, 1, global>, %z: mut view<f32, 1, global>) tile {{
  %p = program_id x : i64
  %n = const {tile} : i64
  %at = mul %p, %n : i64
  %zero = const 0.0 : f32
  %a = load %x[%at] pad %zero : f32[{tile}]
  %b = load %y[%at] pad %zero : f32[{tile}]
  %c = add %a, %b : f32[{tile}]
  store.disjoint %z[%at] = %c
}}"
    );
    let f32s = |fill| view(Scalar::F32, &[n], fill);
    let views = vec![f32s(Fill::Random), f32s(Fill::Random), f32s(Fill::Poison)];
    Case::new(format!("add {n} in tiles of {tile}"), n.div_ceil(tile.into()) as u32, views, text)
}

pub fn softmax(rows: u64, columns: u64, tile: u32) -> Case {
    let text = format!(
        "kernel @softmax_{tile}(%x: view<f32, 2, global>, %y: mut view<f32, 2, global>) tile {{
  %row = program_id x : i64
  %first = const 0 : i64
  %least = const -inf : f32
  %box = load %x[%row, %first] pad %least : f32[1, {tile}]
  %v = reshape %box : f32[{tile}]
  %max = reduce.max %v axis 0 : f32
  %maxs = broadcast %max : f32[{tile}]
  %d = sub %v, %maxs : f32[{tile}]
  %e = exp %d : f32[{tile}]
  %sum = reduce.sum %e axis 0 : f32
  %sums = broadcast %sum : f32[{tile}]
  %q = div %e, %sums : f32[{tile}]
  %out = reshape %q : f32[1, {tile}]
  store.disjoint %y[%row, %first] = %out
}}"
    );
    let f32s = |fill| view(Scalar::F32, &[rows, columns], fill);
    let views = vec![f32s(Fill::Random), f32s(Fill::Poison)];
    Case::new(format!("softmax {rows} x {columns}"), rows as u32, views, text).within(1e-6)
}

pub fn sum(n: u64, tile: u32, programs: u32) -> Case {
    let text = format!(
        "kernel @sum_{tile}(%x: view<f32, 1, global>, %y: mut view<f32, 1, global>) tile {{
  %p = program_id x : i64
  %n = const {tile} : i64
  %first = mul %p, %n : i64
  %programs = num_programs x : i64
  %step = mul %programs, %n : i64
  %end = extent %x axis 0 : i64
  %zeros = const 0.0 : f32[{tile}]
  %zero = const 0.0 : f32
  %total = for %i = %first to %end step %step carry (%acc = %zeros) : f32[{tile}] {{
    %v = load %x[%i] pad %zero : f32[{tile}]
    %next = add %acc, %v : f32[{tile}]
    yield %next
  }}
  %part = reduce.sum %total axis 0 : f32
  %place = const 0 : i64
  %old = atomic.add.device.trust %y[%place] = %part : f32
}}"
    );
    let views = vec![view(Scalar::F32, &[n], Fill::Random), view(Scalar::F32, &[1], Fill::Zero)];
    Case::new(format!("sum of {n}"), programs, views, text).within(1e-3)
}

pub fn layer_norm(elem: Scalar, rows: u64, columns: u64, tile: u32) -> Case {
    let text = format!(
        "kernel @layer_norm_{elem}_{tile}(%x: view<{elem}, 2, global>, %w: view<{elem}, 1, global>, %b: view<{elem}, 1, global>, \
           %y: mut view<{elem}, 2, global>) tile {{
  %row = program_id x : i64
  %first = const 0 : i64
  %zero = const 0.0 : {elem}
  %box = load %x[%row, %first] pad %zero : {elem}[1, {tile}]
  %flat = reshape %box : {elem}[{tile}]
  %v = cast %flat : f32[{tile}]
  %columns = extent %x axis 1 : i64
  %count = cast %columns : f32
  %sum = reduce.sum %v axis 0 : f32
  %mean = div %sum, %count : f32
  %means = broadcast %mean : f32[{tile}]
  %d = sub %v, %means : f32[{tile}]
  %at = iota : i64[{tile}]
  %ends = broadcast %columns : i64[{tile}]
  %inside = lt %at, %ends : bool[{tile}]
  %none = const 0.0 : f32[{tile}]
  %dev = select %inside, %d, %none : f32[{tile}]
  %sq = mul %dev, %dev : f32[{tile}]
  %sqs = reduce.sum %sq axis 0 : f32
  %var = div %sqs, %count : f32
  %eps = const 0.00001 : f32
  %vareps = add %var, %eps : f32
  %scale = rsqrt %vareps : f32
  %scales = broadcast %scale : f32[{tile}]
  %normed = mul %dev, %scales : f32[{tile}]
  %wt = load %w[%first] pad %zero : {elem}[{tile}]
  %bt = load %b[%first] pad %zero : {elem}[{tile}]
  %wf = cast %wt : f32[{tile}]
  %bf = cast %bt : f32[{tile}]
  %r = fma %normed, %wf, %bf : f32[{tile}]
  %narrow = cast %r : {elem}[{tile}]
  %out = reshape %narrow : {elem}[1, {tile}]
  store.disjoint %y[%row, %first] = %out
}}"
    );
    let matrix = |fill| view(elem, &[rows, columns], fill);
    let vector = || view(elem, &[columns], Fill::Random);
    let views = vec![matrix(Fill::Random), vector(), vector(), matrix(Fill::Poison)];
    Case::new(format!("layer norm {elem} {rows} x {columns}"), rows as u32, views, text).within(0.02)
}

fn matmul(elem: Scalar, acc: Scalar, tile: u64) -> Case {
    let (zero, zeros) = (number(elem, 0), number(acc, 0));
    let text = format!(
        "kernel @matmul_{elem}(%a: view<{elem}, 2, global>, %b: view<{elem}, 2, global>, %c: mut view<{acc}, 2, global>) tile {{
  %p = program_id x : i64
  %m = const {tile} : i64
  %row = mul %p, %m : i64
  %first = const 0 : i64
  %step = const 16 : i64
  %end = extent %a axis 1 : i64
  %zero = const {zero} : {elem}
  %zeros = const {zeros} : {acc}[{tile}, {tile}]
  %total = for %k = %first to %end step %step carry (%sum = %zeros) : {acc}[{tile}, {tile}] {{
    %x = load %a[%row, %k] pad %zero : {elem}[{tile}, 16]
    %y = load %b[%k, %first] pad %zero : {elem}[16, {tile}]
    %next = dot %x, %y, %sum : {acc}[{tile}, {tile}]
    yield %next
  }}
  store.disjoint %c[%row, %first] = %total
}}"
    );
    let (rows, columns) = (2 * tile + 3, tile - 3);
    let views = vec![
        view(elem, &[rows, 45], Fill::Random),
        view(elem, &[45, columns], Fill::Random),
        view(acc, &[rows, columns], Fill::Poison),
    ];
    Case::new(format!("matmul {elem}"), 3, views, text).within(1e-4)
}

fn gather_scatter() -> Case {
    let text = "kernel @gather_scatter(%i: view<i32, 1, global>, %x: view<f32, 1, global>, %y: mut view<f32, 1, global>) tile {
  %first = const 0 : i64
  %none = const 0 : i32
  %at = load %i[%first] pad %none : i32[256]
  %lanes = iota : i32[256]
  %end = const 201 : i32[256]
  %some = lt %lanes, %end : bool[256]
  %pad = const -1.5 : f32
  %v = gather.mask %x[%at] where %some pad %pad : f32[256]
  %w = add %v, %v : f32[256]
  scatter.mask %y[%lanes] where %some = %w
}";
    let views = vec![
        view(Scalar::I32, &[256], Fill::Below(200)),
        view(Scalar::F32, &[150], Fill::Random),
        view(Scalar::F32, &[190], Fill::Poison),
    ];
    Case::new("gather and scatter", 1, views, text)
}

fn whole_kernels() -> Vec<Case> {
    vec![
        add(128, 1000),
        add(1024, 4096),
        add(1024, 1),
        add(4096, 20_003),
        softmax(7, 1000, 1024),
        softmax(3, 4096, 4096),
        softmax(3, 4000, 4096),
        sum(100_003, 2048, 7),
        sum(1 << 16, 4096, 3),
        layer_norm(Scalar::BF16, 5, 1000, 1024),
        layer_norm(Scalar::BF16, 3, 4096, 4096),
        layer_norm(Scalar::F16, 5, 777, 1024),
        matmul(Scalar::F32, Scalar::F32, 32),
        matmul(Scalar::F16, Scalar::F32, 32),
        matmul(Scalar::F64, Scalar::F64, 16),
        matmul(Scalar::I32, Scalar::I32, 32),
        gather_scatter(),
    ]
}

/// `y[i] = op(x[i], …)` over one tile of 512, of which 500 are in the views.
fn elementwise(name: &str, op: &str, elem: Scalar, result: Scalar, fills: &[Fill]) -> Case {
    let names = &["a", "b", "c"][..fills.len()];
    let params: String = names.iter().map(|n| format!("%p{n}: view<{elem}, 1, global>, ")).collect();
    let loads: String =
        names.iter().map(|n| format!("  %{n} = load %p{n}[%at] pad %one : {elem}[512]\n")).collect();
    let operands = names.iter().map(|n| format!("%{n}")).collect::<Vec<_>>().join(", ");
    let text = format!(
        "kernel @{name}_{elem}({params}%y: mut view<{result}, 1, global>) tile {{
  %at = const 0 : i64
  %one = const {} : {elem}
{loads}  %r = {op} {operands} : {result}[512]
  store.disjoint %y[%at] = %r
}}",
        number(elem, 1),
    );
    let mut views: Vec<View> = fills.iter().map(|&fill| view(elem, &[500], fill)).collect();
    views.push(view(result, &[500], Fill::Poison));
    Case::new(format!("{name} of {elem}"), 1, views, text)
}

/// Relative accuracy of a few units in the last place.
fn accuracy(elem: Scalar) -> f64 {
    match elem {
        Scalar::F16 => 2e-3,
        Scalar::BF16 => 1.6e-2,
        Scalar::F32 => 1e-6,
        _ => 2e-12,
    }
}

fn functions() -> Vec<Case> {
    let mut cases = Vec::new();
    for elem in FLOATS {
        for op in [
            "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "recip", "sin", "cos", "tanh", "erf", "sigmoid",
            "floor", "ceil", "round", "trunc", "neg", "abs",
        ] {
            cases.push(elementwise(op, op, elem, elem, &[Fill::Random]).within(accuracy(elem)));
        }
        for op in ["add", "sub", "mul", "div", "min", "max", "pow", "atan2", "rem"] {
            cases.push(elementwise(op, op, elem, elem, &[Fill::Random; 2]).within(accuracy(elem)));
        }
        cases.push(elementwise("fma", "fma", elem, elem, &[Fill::Random; 3]).within(accuracy(elem)));
        for op in ["eq", "ne", "lt", "le", "gt", "ge"] {
            cases.push(elementwise(op, op, elem, Scalar::Bool, &[Fill::Random; 2]));
        }
        cases.push(elementwise("is_nan", "is_nan", elem, Scalar::Bool, &[Fill::Random]));
    }
    cases
}

fn integers() -> Vec<Case> {
    let mut cases = Vec::new();
    for elem in INTEGERS {
        for op in ["neg", "not", "abs", "popcount", "clz"] {
            cases.push(elementwise(op, op, elem, elem, &[Fill::Random]));
        }
        for op in ["add", "sub", "mul", "min", "max", "and", "or", "xor", "shl", "shr"] {
            cases.push(elementwise(op, op, elem, elem, &[Fill::Random; 2]));
        }
        cases.push(elementwise("fma", "fma", elem, elem, &[Fill::Random; 3]));
        for op in ["eq", "ne", "lt", "le", "gt", "ge"] {
            cases.push(elementwise(op, op, elem, Scalar::Bool, &[Fill::Random; 2]));
        }
    }
    for op in ["and", "or", "xor", "eq", "ne"] {
        cases.push(elementwise(op, op, Scalar::Bool, Scalar::Bool, &[Fill::Random; 2]));
    }
    cases
}

fn casts() -> Vec<Case> {
    let pairs = Scalar::COMPUTED.into_iter().flat_map(|from| Scalar::COMPUTED.map(|into| (from, into)));
    let different = pairs.filter(|(from, into)| from != into);
    different
        .map(|(from, into)| elementwise(&format!("cast_{into}"), "cast", from, into, &[Fill::Random]))
        .collect()
}

fn combines(op: ReduceOp, elem: Scalar) -> bool {
    let bitwise = matches!(op, ReduceOp::And | ReduceOp::Or | ReduceOp::Xor);
    match elem {
        Scalar::Bool => bitwise,
        e if e.is_float() => !bitwise,
        _ => true,
    }
}

/// Sums of 500 values, whose order is free.
fn sum_accuracy(op: ReduceOp, elem: Scalar) -> f64 {
    match (op, elem) {
        (ReduceOp::Sum | ReduceOp::Prod, Scalar::F16 | Scalar::BF16) => 0.02,
        (ReduceOp::Sum | ReduceOp::Prod, Scalar::F32) => 1e-3,
        (ReduceOp::Sum | ReduceOp::Prod, Scalar::F64) => 1e-10,
        _ => 0.0,
    }
}

fn reductions() -> Vec<Case> {
    let mut cases = Vec::new();
    for (&op, elem) in ReduceOp::ALL.iter().flat_map(|op| Scalar::COMPUTED.map(|elem| (op, elem))) {
        if !combines(op, elem) {
            continue;
        }
        let name = op.name();
        let result = if matches!(op, ReduceOp::ArgMin | ReduceOp::ArgMax) { Scalar::I64 } else { elem };
        for (axis, extents, tile, out) in
            [(0, vec![500], "512", "1"), (0, vec![60, 16], "64, 16", "16"), (1, vec![30, 64], "32, 64", "32")]
        {
            let zeros = vec!["%at"; extents.len()].join(", ");
            let reduced = if extents.len() == 1 { String::new() } else { format!("[{out}]") };
            let text = format!(
                "kernel @{name}_{elem}(%x: view<{elem}, {}, global>, %y: mut view<{result}, 1, global>) tile {{
  %at = const 0 : i64
  %pad = const {} : {elem}
  %v = load %x[{zeros}] pad %pad : {elem}[{tile}]
  %r = reduce.{name} %v axis {axis} : {result}{reduced}
  %out = reshape %r : {result}[{out}]
  store.disjoint %y[%at] = %out
}}",
                extents.len(),
                number(elem, 0),
            );
            let left: u64 = if extents.len() == 1 { 1 } else { extents[1 - axis] };
            let views = vec![view(elem, &extents, Fill::Random), view(result, &[left], Fill::Poison)];
            let title = format!("reduce {name} of {elem} [{tile}] axis {axis}");
            // A reshape of a tile to its own shape is refused as superfluous.
            let text = if extents.len() == 1 {
                text
            } else {
                text.replace(&format!("  %out = reshape %r : {result}[{out}]\n"), "")
                    .replace("= %out", "= %r")
            };
            cases.push(Case::new(title, 1, views, text).within(sum_accuracy(op, elem)));
        }
    }
    cases
}

fn scans() -> Vec<Case> {
    let mut cases = Vec::new();
    let scannable = |op: &&ReduceOp| !matches!(op, ReduceOp::ArgMin | ReduceOp::ArgMax);
    for (&op, elem) in
        ReduceOp::ALL.iter().filter(scannable).flat_map(|op| Scalar::COMPUTED.map(|elem| (op, elem)))
    {
        if !combines(op, elem) {
            continue;
        }
        for modifiers in ["", ".reverse", ".exclusive", ".reverse.exclusive"] {
            let name = op.name();
            let text = format!(
                "kernel @scan_{name}_{elem}(%x: view<{elem}, 1, global>, %y: mut view<{elem}, 1, global>) tile {{
  %at = const 0 : i64
  %pad = const {} : {elem}
  %v = load %x[%at] pad %pad : {elem}[512]
  %r = scan.{name}{modifiers} %v axis 0 : {elem}[512]
  store.disjoint %y[%at] = %r
}}",
                number(elem, 0),
            );
            let views = vec![view(elem, &[500], Fill::Random), view(elem, &[500], Fill::Poison)];
            let title = format!("scan {name}{modifiers} of {elem}");
            cases.push(Case::new(title, 1, views, text).within(10.0 * sum_accuracy(op, elem)));
        }
    }
    cases
}

fn thread_kernels() -> Vec<Case> {
    let f32s = |n, fill| view(Scalar::F32, &[n], fill);
    let i64s = |n, fill| view(Scalar::I64, &[n], fill);
    let u32s = |n, fill| view(Scalar::U32, &[n], fill);
    vec![
        Case::new(
            "threads: bounded map",
            4,
            vec![f32s(1000, Fill::Random), f32s(1000, Fill::Poison)],
            BOUNDED,
        ),
        Case::new(
            "threads: reversal in shared memory",
            3,
            vec![i64s(384, Fill::Random), i64s(384, Fill::Poison)],
            REVERSED,
        ),
        Case::new(
            "threads: sum by shuffles",
            2,
            vec![f32s(192, Fill::Random), f32s(6, Fill::Poison)],
            SHUFFLED,
        )
        .within(1e-5),
        Case::new(
            "threads: votes",
            1,
            vec![view(Scalar::I32, &[96], Fill::Random), u32s(96, Fill::Poison)],
            VOTED,
        ),
        Case::new(
            "threads: histogram",
            4,
            vec![u32s(1000, Fill::Below(37)), u32s(37, Fill::Zero)],
            HISTOGRAM,
        ),
        Case::new(
            "threads: Collatz steps",
            2,
            vec![i64s(200, Fill::Below(5000)), i64s(200, Fill::Poison)],
            COLLATZ,
        ),
        Case::new("threads: local array", 1, vec![i64s(64, Fill::Random), i64s(64, Fill::Poison)], LOCAL),
        Case::new("threads: compare and exchange", 2, vec![u32s(1, Fill::Zero)], COUNTED),
    ]
}

/// The text of a kernel whose `%i` is the index of the thread in the launch.
macro_rules! indexed {
    ($head:literal, $body:literal) => {
        concat!(
            $head,
            "  %p = program_id x : i64\n  %d = block_dim x : i64\n  %t = thread_id x : i64\n  %base = mul %p, %d : i64\n  %i = add %base, %t : i64\n",
            $body
        )
    };
}

const BOUNDED: &str = indexed!(
    "kernel @bounded(%x: view<f32, 1, global>, %y: mut view<f32, 1, global>) thread [256, 1, 1] {\n",
    "  %n = extent %x axis 0 : i64
  %inside = lt %i, %n : bool
  if %inside {
    %zero = const 0.0 : f32
    %v = gather.check %x[%i] pad %zero : f32
    %positive = gt %v, %zero : bool
    %r = if %positive : f32 {
      %root = sqrt %v : f32
      yield %root
    } else {
      %square = mul %v, %v : f32
      yield %square
    }
    scatter.check %y[%i] = %r
    yield
  } else {
    yield
  }
}"
);

const REVERSED: &str = indexed!(
    "kernel @reversed(%x: view<i64, 1, global>, %y: mut view<i64, 1, global>) thread [128, 1, 1] {\n",
    "  %s = alloc shared i64[128] : view<i64, 1, shared>
  %zero = const 0 : i64
  %v = gather.check %x[%i] pad %zero : i64
  scatter.check %s[%t] = %v
  barrier
  %last = const 127 : i64
  %from = sub %last, %t : i64
  %w = gather.check %s[%from] pad %zero : i64
  scatter.check %y[%i] = %w
}"
);

const SHUFFLED: &str = indexed!(
    "kernel @shuffled(%x: view<f32, 1, global>, %y: mut view<f32, 1, global>) thread [96, 1, 1] {\n",
    "  %zero = const 0 : i64
  %pad = const 0.0 : f32
  %v = gather.check %x[%i] pad %pad : f32
  %one = const 1 : i64
  %warp = const 32 : i64
  %five = const 5 : i64
  %total = for %k = %zero to %five step %one carry (%acc = %v) : f32 {
    %lanes = shl %one, %k : i64
    %other = shuffle.xor %acc, %lanes : f32
    %next = add %acc, %other : f32
    yield %next
  }
  %lane = rem %t, %warp : i64
  %leads = eq %lane, %zero : bool
  if %leads {
    %place = div %i, %warp : i64
    scatter.check %y[%place] = %total
    yield
  } else {
    yield
  }
}"
);

const VOTED: &str = indexed!(
    "kernel @voted(%x: view<i32, 1, global>, %y: mut view<u32, 1, global>) thread [96, 1, 1] {\n",
    "  %zero = const 0 : i32
  %v = gather.check %x[%i] pad %zero : i32
  %negative = lt %v, %zero : bool
  %who = vote.ballot %negative : u32
  %every = vote.all %negative : bool
  %some = vote.any %negative : bool
  %a = cast %every : u32
  %b = cast %some : u32
  %ab = add %a, %b : u32
  %r = add %who, %ab : u32
  scatter.check %y[%i] = %r
}"
);

const HISTOGRAM: &str = indexed!(
    "kernel @histogram(%x: view<u32, 1, global>, %y: mut view<u32, 1, global>) thread [256, 1, 1] {\n",
    "  %n = extent %x axis 0 : i64
  %inside = lt %i, %n : bool
  if %inside {
    %zero = const 0 : u32
    %one = const 1 : u32
    %v = gather.check %x[%i] pad %zero : u32
    %old = atomic.add.device.check %y[%v] = %one : u32
    yield
  } else {
    yield
  }
}"
);

const COLLATZ: &str = indexed!(
    "kernel @collatz(%x: view<i64, 1, global>, %y: mut view<i64, 1, global>) thread [128, 1, 1] {\n",
    "  %zero = const 0 : i64
  %one = const 1 : i64
  %two = const 2 : i64
  %three = const 3 : i64
  %n = extent %x axis 0 : i64
  %inside = lt %i, %n : bool
  if %inside {
    %v = gather.check %x[%i] pad %zero : i64
    %start = add %v, %one : i64
    %end, %steps = while (%a = %start, %s = %zero) : i64, i64 {
      %more = gt %a, %one : bool
      condition %more
    } do (%b, %u) {
      %odd = rem %b, %two : i64
      %even = eq %odd, %zero : bool
      %next = if %even : i64 {
        %half = div %b, %two : i64
        yield %half
      } else {
        %grown = fma %b, %three, %one : i64
        yield %grown
      }
      %count = add %u, %one : i64
      yield %next, %count
    }
    scatter.check %y[%i] = %steps
    yield
  } else {
    yield
  }
}"
);

const LOCAL: &str = indexed!(
    "kernel @local_array(%x: view<i64, 1, global>, %y: mut view<i64, 1, global>) thread [64, 1, 1] {\n",
    "  %zero = const 0 : i64
  %one = const 1 : i64
  %four = const 4 : i64
  %l = alloc local i64[4] : view<i64, 1, local>
  %v = gather.check %x[%i] pad %zero : i64
  for %k = %zero to %four step %one {
    %scaled = mul %v, %k : i64
    scatter.check %l[%k] = %scaled
    yield
  }
  %mod = rem %t, %four : i64
  %r = gather.check %l[%mod] pad %zero : i64
  scatter.check %y[%i] = %r
}"
);

const COUNTED: &str = "kernel @counted(%y: mut view<u32, 1, global>) thread [64, 1, 1] {
  %place = const 0 : i64
  %zero = const 0 : u32
  %one = const 1 : u32
  %first = atomic.max.device.check %y[%place] = %zero : u32
  %end, %done = while (%seen = %first, %go = %one) : u32, u32 {
    %more = ne %go, %zero : bool
    condition %more
  } do (%expected, %u) {
    %next = add %expected, %one : u32
    %old = atomic_cas.device.check %y[%place] = %expected -> %next : u32
    %failed = ne %old, %expected : bool
    %again = cast %failed : u32
    yield %old, %again
  }
}";
