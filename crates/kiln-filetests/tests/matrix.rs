//! The tables of what each device can do, in `book/src/devices.md`: what the backends say of
//! themselves, and what naga's modules need of an adapter, found by compiling each operation.
//!
//! `KILN_BLESS=1 cargo test -p kiln-filetests --test matrix` writes them again.

use kiln_backend::{Backend, Capabilities, Error};
use kiln_cpu::CpuBackend;
use kiln_interp::{Interp, Options};
use kiln_ir::Scalar;
use kiln_wgpu::Features;
use std::path::Path;

const PAGE: &str = "../../book/src/devices.md";

#[test]
fn tables_are_those_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let tables = [
        ("capabilities", capabilities()),
        ("features", features()),
        ("types", types()),
        ("operations", operations()),
    ];
    let renewed = tables.iter().fold(page.clone(), |page, (name, table)| replaced(&page, name, table));
    if std::env::var_os("KILN_BLESS").is_some() {
        std::fs::write(&path, &renewed).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        return;
    }
    let different = page.lines().zip(renewed.lines()).find(|(old, new)| old != new);
    assert!(
        page == renewed,
        "{} is stale: {different:?}; `KILN_BLESS=1 cargo test -p kiln-filetests --test matrix` renews it",
        path.display()
    );
}

/// The page with a table in place of what stands between its marks.
fn replaced(page: &str, name: &str, table: &str) -> String {
    let begin = format!("<!-- matrix:{name} -->\n");
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no table {name} in {PAGE}"));
    let (_, after) = rest.split_once("<!-- /matrix -->").unwrap_or_else(|| panic!("{name} has no end"));
    format!("{before}{begin}\n{table}\n<!-- /matrix -->{after}")
}

fn row<S: AsRef<str>>(cells: impl IntoIterator<Item = S>) -> String {
    cells.into_iter().fold("|".to_owned(), |row, cell| format!("{row} {} |", cell.as_ref())) + "\n"
}

fn table<S: AsRef<str>>(heads: &[&str], rows: impl IntoIterator<Item = Vec<S>>) -> String {
    let rule = format!("|{}\n", "---|".repeat(heads.len()));
    rows.into_iter().fold(row(heads) + &rule, |table, cells| table + &row(cells))
}

/// What the backends say that they can do.
fn capabilities() -> String {
    let devices: [(&str, Capabilities); 6] = [
        ("`interp`", Interp::new(Options::default()).properties().capabilities),
        ("`cpu`", CpuBackend::with_threads(1).properties().capabilities),
        ("`cuda`, sm_75", kiln_cuda::capabilities((7, 5))),
        ("`cuda`, sm_80", kiln_cuda::capabilities((8, 0))),
        ("`cuda`, sm_90", kiln_cuda::capabilities((9, 0))),
        ("`wgpu`", kiln_wgpu::capabilities(true, false)),
    ];
    let described = devices.map(|(_, capabilities)| capabilities.described());
    let cell = |(name, there, words): &(&str, bool, String)| match words.strip_prefix(name) {
        _ if !there => "no".to_owned(),
        Some("") => "yes".to_owned(),
        Some(more) => more.trim_matches([' ', '(', ')']).to_owned(),
        None => words.clone(),
    };
    let names = described[0].iter().map(|(name, ..)| *name).enumerate();
    let rows = names.map(|(i, name)| {
        std::iter::once(name.to_owned()).chain(described.iter().map(|all| cell(&all[i]))).collect()
    });
    let heads: Vec<&str> = std::iter::once("").chain(devices.iter().map(|(name, _)| *name)).collect();
    table(&heads, rows)
}

/// The features of adapters that kernels gain by.
fn features() -> String {
    let rows = kiln_wgpu::optional_features().map(|(name, what)| vec![format!("`{name}`"), what.to_owned()]);
    table(&["Feature", "What it is for"], rows)
}

/// A kernel over threads with these operations on a view of an element type.
fn kernel(elem: Scalar, operations: &str) -> String {
    format!(
        "kernel @k(%x: mut view<{elem}, 1, global>) thread [32, 1, 1] {{
  %i = const 0 : i64
  %v = view_load.x1 %x[%i] : {elem}
{operations}
}}"
    )
}

/// What a kernel needs of an adapter; `None` if the IR has no such kernel.
fn needs(text: &str) -> Option<String> {
    let kernel = kiln_ir::parse(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    kiln_ir::verify(&kernel).ok()?;
    let mut features = Features::default();
    let mut needed = Vec::new();
    loop {
        let what = match kiln_wgpu::compile(&kernel, features) {
            Ok(_) if needed.is_empty() => return Some("nothing".to_owned()),
            Ok(_) => return Some(needed.join(", ")),
            Err(Error::Unsupported { what, .. }) => what,
            Err(error) => panic!("{error}: {text}"),
        };
        let Some((_, feature)) = what.split_once("the feature ") else { return Some("refused".to_owned()) };
        match feature {
            "SHADER_INT64" => features.int64 = true,
            "SHADER_F64" => features.float64 = true,
            _ => panic!("a feature that this test does not know: {feature}"),
        }
        needed.push(format!("`{feature}`"));
        assert!(needed.len() < 3, "{text} needs {needed:?} and more");
    }
}

/// What values of each element type need.
fn types() -> String {
    let rows = Scalar::ALL.into_iter().map(|elem| {
        let uses = [
            "  view_store.x1 %x[%i] = %v".to_owned(),
            format!("  %w = mul %v, %v : {elem}\n  view_store.x1 %x[%i] = %w"),
            format!("  %w = view_atomic.add.device %x[%i] = %v : {elem}"),
            format!("  %w = view_atomic_cas.device %x[%i] = %v -> %v : {elem}"),
        ];
        let cells = uses.map(|text| needs(&kernel(elem, &text)).unwrap_or_else(|| "–".to_owned()));
        std::iter::once(format!("`{elem}`")).chain(cells).collect()
    });
    table(&["", "Loads, stores, conversions", "Products", "Atomic sums", "Compare and swap"], rows)
}

/// What operations need that are not of elements.
fn operations() -> String {
    let of_i32 = |operations: &str| kernel(Scalar::I32, operations);
    let condition = "  %z = const 0 : i32\n  %c = gt %v, %z : bool\n";
    let rows = [
        ("barriers of a block", of_i32("  barrier")),
        ("barriers of the grid", of_i32("  grid_barrier")),
        ("the first thread's value for all", of_i32("  %w = block_uniform %v : i32")),
        ("exchanges among the lanes of a warp", of_i32("  %w = shuffle.xor %v, %i : i32")),
        ("votes of a warp", of_i32(&format!("{condition}  %w = vote.ballot %c : u32"))),
        ("asserts", of_i32(&format!("{condition}  assert %c, \"{{}}\", %v"))),
        ("prints", of_i32("  print \"{}\", %v")),
        ("an order among the threads of a block", of_i32("  fence.block")),
        ("an order among blocks", of_i32("  fence.device")),
        ("clocks", of_i32("  %w = clock.nanos : u64")),
        ("sleeping", of_i32("  %n = const 100 : u32\n  sleep %n")),
        ("addresses", of_i32("  %w = address %x : u64")),
    ];
    let rows = rows.map(|(name, text)| {
        let needs = needs(&text).unwrap_or_else(|| panic!("the verifier refuses {text}"));
        vec![name.to_owned(), needs]
    });
    table(&["", "Needs"], rows)
}
