//! The book's page of all operations lists each that the language has.

const PAGE: &str = include_str!("../../../../book/src/operations.md");

/// The files whose public functions and methods are operations of kernels.
const SOURCES: [(&str, &str); 22] = [
    ("arith", include_str!("../../../kiln-lang/src/ops/arith.rs")),
    ("bits", include_str!("../../../kiln-lang/src/ops/bits.rs")),
    ("combine_with", include_str!("../../../kiln-lang/src/ops/combine_with.rs")),
    ("compare", include_str!("../../../kiln-lang/src/ops/compare.rs")),
    ("convert", include_str!("../../../kiln-lang/src/ops/convert.rs")),
    ("dot", include_str!("../../../kiln-lang/src/ops/dot.rs")),
    ("functions", include_str!("../../../kiln-lang/src/ops/functions.rs")),
    ("histogram", include_str!("../../../kiln-lang/src/ops/histogram.rs")),
    ("math", include_str!("../../../kiln-lang/src/ops/math.rs")),
    ("random", include_str!("../../../kiln-lang/src/ops/random.rs")),
    ("rearrange", include_str!("../../../kiln-lang/src/ops/rearrange.rs")),
    ("reduce", include_str!("../../../kiln-lang/src/ops/reduce.rs")),
    ("shape", include_str!("../../../kiln-lang/src/ops/shape.rs")),
    ("sort", include_str!("../../../kiln-lang/src/ops/sort.rs")),
    ("view", include_str!("../../../kiln-lang/src/view/mod.rs")),
    ("atomic", include_str!("../../../kiln-lang/src/view/atomic.rs")),
    ("element", include_str!("../../../kiln-lang/src/view/element.rs")),
    ("ordered", include_str!("../../../kiln-lang/src/view/ordered.rs")),
    ("thread_index", include_str!("../../../kiln-lang/src/view/thread_index.rs")),
    ("tile", include_str!("../../../kiln-lang/src/view/tile.rs")),
    ("thread", include_str!("../../../kiln-lang/src/thread.rs")),
    ("time", include_str!("../../../kiln-lang/src/time.rs")),
];

/// Parts of what operations take and give, not operations, and forms that the page names by their
/// endings (`_unchecked`, `_where`, `_axis`).
const BESIDE: [&str; 4] = ["axes", "at_axis", "of_ir", "untyped"];

/// The names that a line declares: a public function, or a row of a macro that makes methods.
fn declared(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let name = |text: &str| {
        text.len() - text.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len()
    };
    // Of a trait, whose methods have no `pub`.
    let method = text
        .strip_prefix("fn ")
        .filter(|rest| rest.contains("(&self, axis: usize, ") && rest.contains("impl Fn("));
    let public = text.strip_prefix("pub fn ").or_else(|| text.strip_prefix("pub unsafe fn "));
    if let Some(rest) = public.or(method) {
        return Some(&rest[..name(rest)]).filter(|name| !name.is_empty());
    }
    // `exp UnaryOp::…;`, `min Min;`, `sum sum_axis Sum;`, `tan: tan;`
    let row = text.strip_suffix(';')?;
    let first = &row[..name(row)];
    let rest = row[first.len()..].trim_start_matches([':', ' ']);
    let of_words = rest.chars().all(|c| c.is_ascii_alphanumeric() || "_: ()".contains(c));
    let is_row =
        line.starts_with("    ") && !line.starts_with("     ") && of_words && row.contains([' ', ':']);
    let keywords = ["let", "return", "use", "pub", "const", "type", "fn", "mod", "axes"];
    (is_row && !first.is_empty() && !rest.is_empty() && !keywords.contains(&first)).then_some(first)
}

#[test]
fn the_page_lists_every_operation() {
    let on_page = |name: &str| {
        PAGE.match_indices(name).any(|(at, _)| {
            let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let before = PAGE[..at].chars().next_back().is_some_and(part);
            let after = PAGE[at + name.len()..].chars().next().is_some_and(part);
            !before && !after
        })
    };
    let (mut found, mut missing) = (0, Vec::new());
    for (file, source) in SOURCES {
        let public = source.split("#[cfg(test)]").next().unwrap_or_default();
        for name in public.lines().filter_map(declared) {
            let stem =
                name.trim_end_matches("_unchecked").trim_end_matches("_where").trim_end_matches("_axis");
            found += 1;
            if !BESIDE.contains(&name) && !on_page(name) && !on_page(stem) {
                missing.push(format!("{file}: {name}"));
            }
        }
    }
    assert!(found > 100, "{found} operations were found in the sources");
    assert_eq!(missing, [""; 0], "book/src/operations.md does not list them");
}
