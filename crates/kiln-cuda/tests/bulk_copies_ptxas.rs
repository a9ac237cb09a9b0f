//! Bulk copies of vectors and tensors, those that combine, and prefetches: their instructions, and
//! the maps that a launch must make. `KILN_PTXAS` names the assembler (`tools/ptxas.sh --path`);
//! without it the assembling part is skipped, and says so.

mod assembler;

use kiln_cuda::{compile_to_ptx, ptx};
use kiln_ir::*;
use std::io::Write as _;
use std::process::Command;

assembler::tests! {
    text: true;
    every_rank_and_operation
    every_type_of_element
    rows_of_vectors_are_moved_one_by_one
    prefetches_share_the_maps_of_loads;
    plain: sums_of_signed_numbers_are_those_of_unsigned_ones
}

/// Compiles for an H100 and, where there is an assembler, assembles without warnings and spills.
fn compile(text: &str) -> ptx::Module {
    let kernel = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify(&kernel).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let module = compile_to_ptx(&kernel, ptx::Target { compute: (9, 0), ptx: (8, 0) }).expect("compiles");
    let Some(ptxas) = assembler::path() else { return module };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(module.text.as_bytes()).unwrap();
    let mut command = Command::new(ptxas);
    let output = command.args(["-v", "-arch=sm_90a", "-o", "/dev/null"]).arg(file.path()).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    let clean = !log.contains("warning") && log.contains("0 bytes spill stores, 0 bytes spill loads");
    assert!(output.status.success() && clean, "{log}\n{}", module.text);
    module
}

/// A kernel of one warp over `x` and `y` of a rank, with a tile of 16 rows and two panels.
fn kernel(elem: Scalar, rank: usize, body: &str) -> String {
    let columns = 256 / elem.bytes();
    format!(
        "kernel @k(%x: view<{elem}, {rank}, global>, %y: mut view<{elem}, {rank}, global>, %i: i64) tile warps 4 {{
  %tile = shared_tile stages 1 rows 16 columns {columns} : view<{elem}, 3, shared>
  %full = mbarrier count 1 arrivals 1 : view<u64, 1, shared>
  %0 = const 0 : i64
  mbarrier_expect %full, %0 bytes 4096
{body}
}}"
    )
}

/// Loads, all stores that combine such elements, and a prefetch.
fn all_copies(elem: Scalar, rank: usize) -> String {
    let at = vec!["%i"; rank].join(", ");
    let columns = 256 / elem.bytes();
    let mut body = format!(
        "  tma_prefetch %x, {at} rows 16 columns {columns}
  tma_load %x, {at}, %tile, %0, %0, %full, %0 rows 16 multicast 0
  mbarrier_wait %full, %0, %0
  tma_store %tile, %0, %y, {at}\n"
    );
    for op in BulkReduce::ALL.into_iter().filter(|op| op.takes(elem)) {
        body += &format!("  tma_reduce_{} %tile, %0, %y, {at}\n", op.word());
    }
    kernel(elem, rank, &(body + "  tma_store_wait pending 0"))
}

fn count(module: &ptx::Module, part: &str) -> usize {
    module.text.matches(part).count()
}

fn every_rank_and_operation() {
    for rank in 1..=5 {
        let module = compile(&all_copies(Scalar::I32, rank));
        // A panel is one instruction, or of a vector each row of a panel.
        let each = if rank == 1 { 2 * 16 } else { 2 };
        for op in BulkReduce::ALL {
            let reduce = format!(
                "cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{}.tile.bulk_group [",
                op.word()
            );
            assert_eq!(count(&module, &reduce), each, "{reduce}\n{}", module.text);
        }
        for copy in [
            format!("cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile ["),
            format!("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes ["),
            format!("cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group ["),
        ] {
            assert_eq!(count(&module, &copy), each, "{copy}\n{}", module.text);
        }
        assert_eq!(count(&module, "cp.async.bulk.commit_group"), 7);
    }
}

fn every_type_of_element() {
    for elem in Scalar::ALL.into_iter().filter(|&elem| elem != Scalar::Bool) {
        let module = compile(&all_copies(elem, 2));
        let operations = BulkReduce::ALL.into_iter().filter(|op| op.takes(elem)).count();
        assert_eq!(count(&module, "cp.reduce.async"), 2 * operations, "{elem}");
    }
}

fn rows_of_vectors_are_moved_one_by_one() {
    let body = "  tma_load %x, %i, %tile, %0, %0, %full, %0 rows 8 multicast 0
  %8 = const 8 : i64
  tma_load %x, %i, %tile, %0, %8, %full, %0 rows 8 multicast 0
  mbarrier_wait %full, %0, %0
  tma_store %tile, %0, %y, %i
  tma_store_wait pending 0";
    let module = compile(&kernel(Scalar::F16, 1, body));
    // Two panels of 16 rows of 128 bytes: where each row of both is stored from.
    let stores = module.text.lines().filter(|l| l.contains("1d.global.shared::cta.bulk_group"));
    let from: Vec<u32> = stores
        .map(|l| l.rsplit_once('+').and_then(|(_, at)| at.trim_end_matches([']', ';']).parse().ok()).unwrap())
        .collect();
    let expected: Vec<u32> = (0..16).flat_map(|row| [row * 128, 2048 + row * 128]).collect();
    assert_eq!(from, expected, "{}", module.text);
    // However many rows a copy has, the map is one.
    let maps: Vec<_> = module.maps.iter().map(|m| (m.name.as_str(), m.rank, m.extents, m.way)).collect();
    assert_eq!(maps, [("x", 1, [1, 64], ptx::Way::Load), ("y", 1, [1, 64], ptx::Way::Store)]);
}

fn prefetches_share_the_maps_of_loads() {
    let body = "  tma_prefetch %x, %i, %i rows 16 columns 64
  tma_load %x, %0, %0, %tile, %0, %0, %full, %0 rows 16 multicast 0
  tma_prefetch %x, %i, %i rows 24 columns 32
  mbarrier_wait %full, %0, %0";
    let module = compile(&kernel(Scalar::F32, 2, body));
    let maps: Vec<_> = module.maps.iter().map(|m| (m.name.as_str(), m.extents, m.way)).collect();
    assert_eq!(maps, [("x", [16, 32], ptx::Way::Load), ("x", [24, 32], ptx::Way::Load)]);
    assert_eq!(count(&module, "cp.async.bulk.prefetch.tensor.2d"), 3);
}

fn sums_of_signed_numbers_are_those_of_unsigned_ones() {
    let seen = |elem, op: BulkReduce| {
        let body = format!("  tma_reduce_{} %tile, %0, %y, %i, %i\n  tma_store_wait pending 0", op.word());
        let text = kernel(elem, 2, &body);
        let kernel = parse(&text).unwrap();
        let module = compile_to_ptx(&kernel, ptx::Target { compute: (9, 0), ptx: (8, 0) }).unwrap();
        module.maps[0].elem
    };
    use BulkReduce::{Add, Max, Min, Or};
    assert_eq!(
        [Add, Min, Max, Or].map(|op| seen(Scalar::I32, op)),
        [Scalar::I32, Scalar::I32, Scalar::I32, Scalar::U32]
    );
    assert_eq!(
        [Add, Min, Max, Or].map(|op| seen(Scalar::I64, op)),
        [Scalar::U64, Scalar::I64, Scalar::I64, Scalar::U64]
    );
    assert_eq!(seen(Scalar::BF16, Add), Scalar::BF16);
}
