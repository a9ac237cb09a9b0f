//! Derivatives against JAX's, which `tools/derivative_cases.py` has written to `jax/cases.txt`.

mod catalog;

use catalog::{Case, array, cases};
use kiln_array::{Array, grad, hvp, jvp};
use std::collections::HashMap;

/// Cases that JAX has no counterpart of: attention has random weights, and others are there to see
/// what becomes of large arrays and of ties that the libraries break differently.
const APART: [&str; 3] = ["attention", "long sum", "scatter by itself"];

/// What is wrong, if something is.
fn differs(what: &str, got: &Array, expected: &str) -> Option<String> {
    let got = got.to_vec::<f64>().map_err(|error| format!("{what}: {error}"));
    let got = match got {
        Ok(got) => got,
        Err(error) => return Some(error),
    };
    let expected: Vec<f64> = expected.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let close = |(got, expected): (&f64, &f64)| (got - expected).abs() <= 1e-9 * expected.abs().max(1.0);
    let fine = got.len() == expected.len() && got.iter().zip(&expected).all(close);
    (!fine).then(|| format!("{what}: {got:?}, JAX has {expected:?}"))
}

#[test]
fn every_differentiable_operation() {
    let lines = include_str!("jax/cases.txt").lines().map(|line| line.split('|').collect::<Vec<_>>());
    let by_name: HashMap<&str, Vec<&str>> = lines.map(|of| (of[0], of[1..].to_vec())).collect();
    let mut wrong = Vec::new();
    for Case { name, shape, positive, f } in cases() {
        if APART.contains(&name) {
            continue;
        }
        let [value, gradient, tangent, second] =
            by_name.get(name).unwrap_or_else(|| panic!("JAX's results for {name} are missing"))[..]
        else {
            panic!("{name} has not four lists");
        };
        let (x, v) = (array(shape, positive, 0), array(shape, false, 4) * 0.5);
        let y = f(&x);
        let w = array(y.shape(), true, 2);
        let second_of = hvp(|x| (f(x).sin() * &w).sum(), &x, &v);
        let all = [
            ("value", y, value),
            ("gradient", grad(|x| (f(x) * &w).sum(), &x), gradient),
            ("tangent", jvp(f, &x, &v).1, tangent),
            ("second", second_of, second),
        ];
        let wrong_here =
            all.iter().filter_map(|(what, got, expected)| differs(&format!("{name}, {what}"), got, expected));
        wrong.extend(wrong_here);
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
