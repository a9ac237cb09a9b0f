//! The emitter against NVIDIA's assembler: every operation assembles for every target, without
//! warnings. `KILN_PTXAS` names the assembler (`tools/ptxas.sh --path`); without it the assembling
//! part is skipped, and says so.

mod assembler;

use kiln_cuda::ptx::{Module, Target, emit};
use kiln_ir::*;
use std::io::Write as _;
use std::process::Command;

assembler::tests! {
    text: true;
    vector_accesses_of_every_type
    cache_hints
    limits_of_registers
    offsets_that_are_multiples_load_vectors
    arithmetic_of_every_type
    conversions_between_all_types
    control_flow_shared_memory_and_warps
    inline_ptx
    atomics_of_128_bits
    grid_barriers;
    plain: a_tile_kernel_is_refused
}

const TARGETS: [(u32, u32); 3] = [(8, 0), (9, 0), (10, 0)];

fn kernel(block: [u32; 3]) -> Kernel {
    Kernel::new("test", Level::Thread { block })
}

fn view(kernel: &mut Kernel, name: &str, elem: Scalar, rank: u32, mutable: bool) -> Value {
    let ty = Type::view(elem, rank, Space::Global);
    kernel.add_param(Param { name: name.into(), ty, mutable, facts: Facts::default() })
}

fn scalar(kernel: &mut Kernel, elem: Scalar) -> Value {
    kernel.add_param(Param {
        name: "s".into(),
        ty: Type::scalar(elem),
        mutable: false,
        facts: Facts::default(),
    })
}

/// Emits for every target and assembles where there is an assembler.
fn assemble(kernel: &Kernel) -> Module {
    assemble_for(kernel, &TARGETS)
}

fn assemble_for(kernel: &Kernel, targets: &[(u32, u32)]) -> Module {
    let mut last = None;
    for &compute in targets {
        let module = emit(kernel, Target { compute, ptx: (9, 0) }).expect("emits");
        if let Some(ptxas) = assembler::path() {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(module.text.as_bytes()).unwrap();
            let arch = format!("-arch=sm_{}{}", compute.0, compute.1);
            let out =
                Command::new(ptxas).args(["-v", &arch, "-o", "/dev/null"]).arg(file.path()).output().unwrap();
            let log = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success() && !log.contains("warning"), "{log}\n{}", module.text);
        }
        last = Some(module);
    }
    last.unwrap()
}

fn address(b: &mut Builder<'_>, v: Value) -> Value {
    let op = b.op(OpKind::Address, &[v], &[Type::scalar(Scalar::U64)]);
    b.kernel.result(op)
}

fn load(b: &mut Builder<'_>, at: Value, elem: Scalar, lanes: u32, predicate: Option<Value>) -> Vec<Value> {
    let kind = OpKind::PtrLoad {
        space: Space::Global,
        lanes,
        reuse: Reuse::Normal,
        predicated: predicate.is_some(),
    };
    let operands: Vec<Value> = std::iter::once(at).chain(predicate).collect();
    let op = b.op(kind, &operands, &vec![Type::scalar(elem); lanes as usize]);
    b.kernel.op(op).results.to_vec()
}

fn store(b: &mut Builder<'_>, at: Value, predicate: Option<Value>, values: &[Value]) {
    let kind = OpKind::PtrStore {
        space: Space::Global,
        lanes: values.len() as u32,
        reuse: Reuse::Streaming,
        predicated: predicate.is_some(),
    };
    let operands: Vec<Value> = std::iter::once(at).chain(predicate).chain(values.iter().copied()).collect();
    b.op(kind, &operands, &[]);
}

fn vector_accesses_of_every_type() {
    for elem in Scalar::ALL {
        let lanes_of = |n: &u32| n * elem.bytes() <= 16;
        for lanes in [1u32, 2, 4, 8].into_iter().filter(lanes_of) {
            let mut k = kernel([128, 1, 1]);
            let (x, y) = (view(&mut k, "x", elem, 1, false), view(&mut k, "y", elem, 1, true));
            let mut b = Builder::new(&mut k);
            let (xa, ya) = (address(&mut b, x), address(&mut b, y));
            let (n, t) = (b.extent(x, 0), b.thread_id(Axis::X));
            let inside = b.compare(CompareOp::Lt, t, n);
            let values = load(&mut b, xa, elem, lanes, Some(inside));
            store(&mut b, ya, Some(inside), &values);
            let module = assemble(&k);
            assert!(
                module.text.contains("ld.global.nc"),
                "a read-only view loads through the read-only path:\n{}",
                module.text
            );
        }
    }
}

fn cache_hints() {
    for &reuse in Reuse::ALL {
        let mut k = kernel([128, 1, 1]);
        let (x, y) = (view(&mut k, "x", Scalar::F32, 1, false), view(&mut k, "y", Scalar::F32, 1, true));
        let mut b = Builder::new(&mut k);
        for view in [x, y] {
            let (from, to) = (address(&mut b, view), address(&mut b, y));
            let kind = OpKind::PtrLoad { space: Space::Global, lanes: 4, reuse, predicated: false };
            let load = b.op(kind, &[from], &vec![Type::scalar(Scalar::F32); 4]);
            let values = b.kernel.op(load).results.clone();
            let kind = OpKind::PtrStore { space: Space::Global, lanes: 4, reuse, predicated: false };
            let operands: Vec<Value> = [to].into_iter().chain(values).collect();
            b.op(kind, &operands, &[]);
        }
        let text = assemble(&k).text;
        let expected = match reuse {
            Reuse::Normal => [".nc", "", ""],
            Reuse::Streaming => [".nc", ".cs", ".cs"],
            Reuse::EvictFirst => [".nc.L1::evict_first", ".L1::evict_first", ".L1::evict_first"],
            Reuse::EvictLast => [".nc.L1::evict_last", ".L1::evict_last", ".L1::evict_last"],
            Reuse::L2Only => [".cg.nc", ".cg", ".cg"],
            Reuse::WriteThrough => [".nc", "", ".wt"],
        };
        for (op, hint) in ["ld", "ld", "st"].iter().zip(expected) {
            assert!(text.contains(&format!("{op}.global{hint}.v4.b32")), "{reuse:?}:\n{text}");
        }
    }
}

fn limits_of_registers() {
    let mut k = kernel([128, 1, 1]);
    let y = view(&mut k, "y", Scalar::F32, 1, true);
    let mut b = Builder::new(&mut k);
    let (at, value) = (address(&mut b, y), b.constant(Literal::f32(1.0)));
    store(&mut b, at, None, &[value]);
    assert!(!assemble(&k).text.contains(".maxnreg"));
    for registers in [24, 64, 255] {
        k.hints.registers = Some(registers);
        let text = assemble(&k).text;
        assert!(text.contains(&format!(".reqntid 128, 1, 1\n.maxnreg {registers}\n{{")), "{text}");
    }
}

fn offsets_that_are_multiples_load_vectors() {
    let text = |offset: &str| {
        format!(
            "kernel @k(%x: view<f32, 1, global> {{align=16, extents=[16], strides=[=1]}}, %y: mut view<f32, 1, global>, %n: i64) tile warps 1 {{
  %zero = const 0.0 : f32
  %mask = const -4 : i64
  %multiple = and %n, %mask : i64
  %box = load %x[{offset}] pad %zero : f32[128]
  store %y[%n] = %box
}}"
        )
    };
    let target = Target { compute: (9, 0), ptx: (9, 0) };
    let ptx = |offset| kiln_cuda::compile_to_ptx(&parse(&text(offset)).unwrap(), target).unwrap().text;
    assert!(ptx("%multiple").contains("ld.global.nc.v4.b32"), "{}", ptx("%multiple"));
    assert!(!ptx("%n").contains("ld.global.nc.v"), "{}", ptx("%n"));
}

fn arithmetic_of_every_type() {
    use BinaryOp::*;
    for elem in [Scalar::Bool, Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64, Scalar::F32, Scalar::F64] {
        let mut k = kernel([64, 2, 1]);
        let (x, y) = (view(&mut k, "x", elem, 1, true), scalar(&mut k, elem));
        let mut b = Builder::new(&mut k);
        let at = address(&mut b, x);
        let mut v = load(&mut b, at, elem, 1, None)[0];
        let ops: &[BinaryOp] = match elem {
            Scalar::Bool => &[And, Or, Xor, Min, Max],
            e if e.is_float() => &[Add, Sub, Mul, Div, FastDiv, Min, Max],
            _ => &[Add, Sub, Mul, Div, Rem, Min, Max, And, Or, Xor, Shl, Shr],
        };
        for &op in ops {
            v = b.binary(op, v, y);
        }
        for op in [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge] {
            let c = b.compare(op, v, y);
            v = b.select(c, y, v);
        }
        if elem != Scalar::Bool {
            v = b.fma(v, y, v);
        }
        store(&mut b, at, None, &[v]);
        assemble(&k);
    }
}

fn conversions_between_all_types() {
    let mut k = kernel([32, 1, 1]);
    let all: Vec<Scalar> = Scalar::ALL.into_iter().filter(|elem| !elem.is_storage()).collect();
    let views: Vec<Value> = all.iter().map(|&e| view(&mut k, "v", e, 1, true)).collect();
    let mut b = Builder::new(&mut k);
    let places: Vec<Value> = views.iter().map(|&v| address(&mut b, v)).collect();
    for (&from, &at) in all.iter().zip(&places) {
        let v = load(&mut b, at, from, 1, None)[0];
        for (&into, &to) in all.iter().zip(&places) {
            let cast = b.cast(v, into);
            store(&mut b, to, None, &[cast]);
        }
    }
    assemble(&k);
}

fn control_flow_shared_memory_and_warps() {
    let mut k = kernel([96, 1, 1]);
    let x = view(&mut k, "x", Scalar::F32, 1, true);
    let mut b = Builder::new(&mut k);
    let shared = b.alloc(Space::Shared, Scalar::F32, Shape::new(&[96]));
    let local = b.alloc(Space::Local, Scalar::I64, Shape::new(&[4]));
    let (at, s, l) = (address(&mut b, x), address(&mut b, shared), address(&mut b, local));
    let (zero, one, n) = (b.index(0), b.index(1), b.extent(x, 0));
    let init = load(&mut b, at, Scalar::F32, 1, None)[0];
    // for i in 0..n { a, b = b, a } swaps through the parallel moves.
    let body = b.kernel.add_block();
    let args: Vec<Value> =
        [Scalar::I64, Scalar::F32, Scalar::F32].map(|e| b.kernel.add_arg(body, Type::scalar(e))).to_vec();
    let outer = std::mem::replace(&mut b.block, body);
    b.yield_(&[args[2], args[1]]);
    b.block = outer;
    let two = [Type::scalar(Scalar::F32), Type::scalar(Scalar::F32)];
    let op =
        b.kernel.append(b.block, OpKind::For, &[zero, n, one, init, init], &two, &[body], Loc::default());
    let swapped = b.kernel.op(op).results[1];
    b.op(
        OpKind::PtrStore { space: Space::Shared, lanes: 1, reuse: Reuse::Normal, predicated: false },
        &[s, swapped],
        &[],
    );
    b.op(
        OpKind::PtrStore { space: Space::Local, lanes: 1, reuse: Reuse::Normal, predicated: false },
        &[l, n],
        &[],
    );
    b.op(OpKind::Barrier, &[], &[]);
    for lanes in [u32::MAX, 0xffff] {
        let lanes = b.constant(Literal::from_bits(Scalar::U32, lanes.into()));
        b.op(OpKind::WarpBarrier, &[lanes], &[]);
    }
    let op = b.op(OpKind::Shuffle(ShuffleMode::Down), &[n, one], &[Type::scalar(Scalar::I64)]);
    let other = b.kernel.result(op);
    let ok = b.compare(CompareOp::Lt, other, n);
    b.op(OpKind::CheckBounds, &[ok, other, n], &[]);
    let op = b.op(OpKind::Vote(VoteMode::Ballot), &[ok], &[Type::scalar(Scalar::U32)]);
    let ballot = b.kernel.result(op);
    let message = b.kernel.message("{} lanes of {}");
    b.op(OpKind::Print(message), &[ballot, swapped], &[]);
    b.op(OpKind::Assert(message), &[ok, ballot, swapped], &[]);
    for atomic in [AtomicOp::Add, AtomicOp::Min, AtomicOp::Exchange] {
        let kind =
            OpKind::PtrAtomic { space: Space::Global, op: atomic, scope: Scope::Device, predicated: true };
        b.op(kind, &[at, ok, swapped], &[Type::scalar(Scalar::F32)]);
    }
    for atomic in [AtomicOp::AddF16x2, AtomicOp::AddBf16x2] {
        let kind =
            OpKind::PtrAtomic { space: Space::Global, op: atomic, scope: Scope::Device, predicated: true };
        b.op(kind, &[at, ok, ballot], &[Type::scalar(Scalar::U32)]);
        let kind =
            OpKind::PtrAtomic { space: Space::Shared, op: atomic, scope: Scope::Block, predicated: false };
        b.op(kind, &[s, ballot], &[Type::scalar(Scalar::U32)]);
    }
    let module = assemble(&k);
    assert_eq!((module.shared, module.sites.len(), module.words), (96 * 4, 3, 3));
    assert!(!module.text.contains("activemask"), "96 threads are whole warps");
}

fn inline_ptx() {
    let mut k = kernel([64, 1, 1]);
    let (n, x) = (scalar(&mut k, Scalar::U32), scalar(&mut k, Scalar::F64));
    let (h, y) = (scalar(&mut k, Scalar::U16), view(&mut k, "y", Scalar::U32, 1, true));
    let mut b = Builder::new(&mut k);
    let ok = b.compare(CompareOp::Gt, n, n);
    let texts: [(&str, Vec<Value>, Option<Scalar>); 5] = [
        ("mad.hi.u32 %0, %1, %1, 3;", vec![n], Some(Scalar::U32)),
        (
            ".reg .u32 t;\nmov.u32 t, %laneid;\n@%2 add.u32 t, t, %1;\nmov.u32 %0, t;",
            vec![n, ok],
            Some(Scalar::U32),
        ),
        ("fma.rn.f64 %0, %1, %1, %1;", vec![x], Some(Scalar::F64)),
        ("add.u16 %0, %1, %1;", vec![h], Some(Scalar::U16)),
        ("@!%1 bra over; nanosleep.u32 %0; over: nanosleep.u32 1;", vec![n, ok], None),
    ];
    // Twice: labels and registers are each text's own.
    for (text, inputs, result) in texts.iter().cycle().take(10) {
        let kind = OpKind::InlinePtx(b.kernel.message(text));
        let types: Vec<Type> = result.iter().map(|elem| Type::scalar(*elem)).collect();
        let op = b.op(kind, inputs, &types);
        if *result == Some(Scalar::U32) {
            let (at, value) = (address(&mut b, y), b.kernel.result(op));
            store(&mut b, at, None, &[value]);
        }
    }
    let module = assemble(&k);
    assert_eq!(module.text.matches("// ptx of ").count(), 10);
}

/// As the documentation of `ptx` has them, and an exchange.
fn atomics_of_128_bits() {
    let mut k = kernel([64, 1, 1]);
    let (a, y) = (scalar(&mut k, Scalar::U64), view(&mut k, "y", Scalar::U32, 1, true));
    let mut b = Builder::new(&mut k);
    for text in [
        ".reg .b128 old, new, found; .reg .b64 low, high; .reg .pred same;
        mov.b128 old, {%2, %3}; mov.b128 new, {%4, %5};
        atom.acq_rel.gpu.global.cas.b128 found, [%1], old, new;
        mov.b128 {low, high}, found;
        setp.eq.b64 same, low, %2; setp.eq.and.b64 same, high, %3, same; selp.u32 %0, 1, 0, same;",
        ".reg .b128 new, found; .reg .b64 low, high; mov.b128 new, {%2, %3};
        atom.relaxed.gpu.global.exch.b128 found, [%1], new; mov.b128 {low, high}, found;
        cvt.u32.u64 %0, low;",
    ] {
        let kind = OpKind::InlinePtx(b.kernel.message(text));
        let op = b.op(kind, &[a; 5], &[Type::scalar(Scalar::U32)]);
        let (at, value) = (address(&mut b, y), b.kernel.result(op));
        store(&mut b, at, None, &[value]);
    }
    let module = assemble_for(&k, &[(9, 0)]);
    assert_eq!(module.text.matches(".b128 found, [").count(), 2, "{}", module.text);
}

fn grid_barriers() {
    for (block, faults) in [([96, 1, 1], false), ([8, 4, 2], true), ([33, 1, 1], true), ([1, 1, 1], false)] {
        let mut k = kernel(block);
        let n = scalar(&mut k, Scalar::I64);
        let mut b = Builder::new(&mut k);
        b.op(OpKind::GridBarrier, &[], &[]);
        if faults {
            let tid = b.thread_id(Axis::X);
            let ok = b.compare(CompareOp::Lt, tid, n);
            b.op(OpKind::CheckBounds, &[ok, tid, n], &[]);
        }
        b.op(OpKind::GridBarrier, &[], &[]);
        let module = assemble(&k);
        assert!(module.grid_barrier && module.words == 1);
        // The address of the counter is a hidden word, whether or not the kernel can report.
        assert!(module.text.contains("[w1]"), "{}", module.text);
        let count = |what: &str| module.text.matches(what).count();
        assert_eq!(count("red.release.gpu.global.add.u64"), 2, "{}", module.text);
        assert_eq!(count("ld.acquire.gpu.global.u64"), 2, "{}", module.text);
        // Who faults tells those that wait; a block of which a thread has ended does not arrive.
        let ends = [count("red.relaxed.gpu.global.or.b64"), count("barrier.red.popc.u32") / 2];
        assert_eq!(ends, [usize::from(faults); 2], "{}", module.text);
    }
    let module = assemble(&kernel([32, 1, 1]));
    assert!(!module.grid_barrier && !module.text.contains("w0"));
}

fn a_tile_kernel_is_refused() {
    let k = Kernel::new("tile", Level::Tile { warps: None });
    assert!(emit(&k, Target { compute: (9, 0), ptx: (9, 0) }).is_err());
}

/// A report that checks share would be where their branches meet again: behind a loop with a check
/// the assembler then left warps divided, and shuffles there gave random values on a GPU.
#[test]
fn each_check_has_a_report_that_nothing_else_reaches() {
    let mut k = kernel([64, 1, 1]);
    let (n, y) = (scalar(&mut k, Scalar::I64), view(&mut k, "y", Scalar::I64, 1, true));
    let mut b = Builder::new(&mut k);
    let (t, zero) = (b.thread_id(Axis::X), b.index(0));
    let fine = [n, t].map(|v| b.compare(CompareOp::Ne, v, zero));
    for (fine, by) in fine.into_iter().zip([n, t]) {
        b.op(OpKind::CheckDivisor, &[fine], &[]);
        let quotient = b.binary(BinaryOp::Div, n, by);
        let at = address(&mut b, y);
        store(&mut b, at, None, &[quotient]);
    }
    let module = assemble(&k);
    let (own, reports) = module.text.split_once("\tret;\n").expect("the kernel's own code ends");
    let labels = |text: &str| -> Vec<String> {
        let names = text.lines().filter_map(|line| line.strip_suffix(':'));
        names.filter(|name| name.starts_with('$')).map(str::to_owned).collect()
    };
    assert!(labels(own).is_empty() && !reports.contains("\tbra"), "{}", module.text);
    assert_eq!(labels(reports).len(), 2, "{}", module.text);
    for label in labels(reports) {
        assert_eq!(own.matches(&format!("bra {label};")).count(), 1, "{}", module.text);
    }
    for report in reports.split("$L").skip(1) {
        assert!(report.trim_end_matches(['}', '\n']).ends_with("\texit;"), "{}", module.text);
    }
}
