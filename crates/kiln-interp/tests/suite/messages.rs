//! What kernels print.

use crate::harness::*;
use half::f16;
use kiln_ir::*;

fn printed(kernel: &Kernel, grid: [u32; 3], args: &[Arg]) -> Vec<String> {
    let host = Host::new();
    host.run(kernel, grid, args).unwrap();
    let lines = host.printed.lock().unwrap();
    lines.clone()
}

#[test]
fn every_type_prints_as_in_rust() {
    let literals = [
        (Literal::bool(true), "true"),
        (Literal::wrapping(Scalar::I32, -5), "-5"),
        (Literal::wrapping(Scalar::U32, -1), "4294967295"),
        (Literal::index(i64::MIN), "-9223372036854775808"),
        (Literal::wrapping(Scalar::U64, -1), "18446744073709551615"),
        (Literal::from_bits(Scalar::F16, f16::from_f32(0.1).to_bits().into()), "0.099975586"),
        (Literal::from_f64(Scalar::BF16, 3.0), "3"),
        (Literal::f32(0.1), "0.1"),
        (Literal::f32(f32::NEG_INFINITY), "-inf"),
        (Literal::from_f64(Scalar::F64, 1e21), "1000000000000000000000"),
    ];
    let kernel = tiles(&[], |b, _| {
        let message = b.kernel.message("value {}!");
        for (literal, _) in literals {
            let value = b.constant(literal);
            b.op(OpKind::Print(message), &[value], &[]);
        }
    });
    let want: Vec<String> = literals.iter().map(|(_, text)| format!("value {text}!")).collect();
    assert_eq!(printed(&kernel, [1; 3], &[]), want);
}

#[test]
fn a_program_over_tiles_prints_once_and_active_threads_each() {
    let print = |b: &mut Builder, text: &str, values: &[Value]| {
        let message = b.kernel.message(text);
        b.op(OpKind::Print(message), values, &[]);
    };
    let tile = tiles(&[], |b, _| {
        let pid = b.program_id(Axis::X);
        let two = b.f32(2.5);
        print(b, "{}: {} and\nmore", &[pid, two]);
    });
    assert_eq!(printed(&tile, [2, 1, 1], &[]), ["0: 2.5 and", "more", "1: 2.5 and", "more"]);
    let thread = threads(5, &[], |b, _| {
        let tid = b.thread_id(Axis::X);
        let two = b.index(2);
        let high = b.compare(CompareOp::Gt, tid, two);
        b.if_(
            high,
            &[],
            |b| {
                print(b, "thread {}", &[tid]);
                vec![]
            },
            |_| vec![],
        );
        print(b, "all", &[]);
    });
    assert_eq!(printed(&thread, [1; 3], &[]), ["thread 3", "thread 4", "all", "all", "all", "all", "all"]);
}
