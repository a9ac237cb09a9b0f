//! What is wrong is said at the next read, with the operation, the shapes and the line.

use kiln_array::nn::{Attention, Conv2d, Key, Linear};
use kiln_array::{
    Array, Convolution, MatrixNorm, Padding, Pairs, concatenate, cond, custom_jvp, custom_vjp, einsum, eval,
    grad, jvp, scan, stack, vjp, vmap,
};
use kiln_ir::Scalar;
use kiln_runtime::Device;

fn x(shape: &[usize]) -> Array {
    let device = Device::open("interp").unwrap();
    Array::new(&device, &vec![1.0f32; shape.iter().product()], shape)
}

#[track_caller]
fn refused(array: Array, expected: &str) {
    let line = std::panic::Location::caller().line();
    let error = (array.exp() + 1.0).to_vec::<f32>().unwrap_err().to_string();
    // A call of several lines has its argument on the next one.
    let is_here = (line..line + 2).any(|line| error.contains(&format!("tests/errors.rs:{line}:")));
    assert!(is_here && error.ends_with(expected), "{error}\nexpected line {line}: {expected}");
}

#[test]
fn shapes_that_do_not_fit() {
    refused(
        &x(&[2, 3]) + &x(&[2]),
        "`add`: shapes [2, 3] and [2] do not broadcast: axes must be equal, or 1",
    );
    refused(x(&[2]).less(x(&[3])), "`less`: shapes [2] and [3] do not broadcast: axes must be equal, or 1");
    refused(
        x(&[2, 3]).matmul(&x(&[2, 3])),
        "`matmul`: shapes [2, 3] and [2, 3]: the left one has 3 columns and the right one 2 rows",
    );
    refused(x(&[]).matmul(&x(&[3])), "`matmul`: shapes [] and [3]: a number is no matrix; multiply by `*`");
    refused(x(&[6]).reshape(&[4, -1]), "`reshape`: 6 elements do not fill shape [4, -1]");
    refused(
        x(&[6]).reshape(&[-1, -1]),
        "`reshape`: shape [-1, -1] leaves 2 extents open: only one may be -1",
    );
    let any = "`reshape`: any extent would do for the -1 of shape [0, -1]: write it out";
    refused(x(&[0, 5]).reshape(&[0, -1]), any);
    refused(x(&[6]).permute(&[0, 1]), "`permute`: [0, 1] does not name each axis of shape [6] once");
    refused(x(&[6]).slice(0, 2..9), "`slice`: 2..9 in steps of 1 is no part of axis 0 of shape [6]");
    refused(x(&[6]).slice(0, -7..), "`slice`: -7.. in steps of 1 is no part of axis 0 of shape [6]");
    refused(x(&[6]).slice(0, -1..2), "`slice`: -1..2 in steps of 1 is no part of axis 0 of shape [6]");
    refused(
        x(&[6]).slice(0, i64::MIN..),
        "`slice`: -9223372036854775808.. in steps of 1 is no part of axis 0 of shape [6]",
    );
    refused(
        x(&[6]).slice(0, ..=usize::MAX),
        "`slice`: ..=18446744073709551615 in steps of 1 is no part of axis 0 of shape [6]",
    );
    refused(x(&[6]).slice(0, ..=6), "`slice`: ..=6 in steps of 1 is no part of axis 0 of shape [6]");
    refused(x(&[2, 3]).sum_axes(&[2]), "`sum`: shape [2, 3] has no axis 2");
    refused(x(&[2, 3]).sum_axes(&[1, -1]), "`sum`: [1, -1] name an axis of shape [2, 3] twice");
    refused(x(&[2, 0]).argmax(-1), "`argmax`: no elements along an axis of shape [2, 0]");
    refused(x(&[0]).argmin(0), "`argmin`: no elements along an axis of shape [0]");
    refused(x(&[2, 0]).max_axes(&[1]), "`max`: no elements along an axis of shape [2, 0]");
    refused(x(&[2]).softmax(1), "`softmax`: shape [2] has no axis 1");
    refused(x(&[2, 3]).top_k(4, -1).0, "`top_k`: axis -1 of shape [2, 3] has no 4 greatest elements");
    refused(x(&[5000]).top_k(1, 1).0, "`top_k`: shape [5000] has no axis 1");
    refused(stack(&[&x(&[2]), &x(&[2])], 2), "`stack`: there is no place 2 for a new axis in shape [2]");
    refused(stack(&[&x(&[2]), &x(&[3])], 0), "`stack`: shapes [2], [3] differ");
    refused(x(&[]).log_softmax(-1), "`log_softmax`: shape [] has no axis -1");
    refused(x(&[]).logsumexp(0), "`logsumexp`: shape [] has no axis 0");
    refused(x(&[2, 3]).squeeze(0), "`squeeze`: axis 0 of shape [2, 3] does not have extent 1");
    refused(
        concatenate(&[&x(&[2, 3]), &x(&[2])], 0),
        "`concatenate`: shapes [2, 3], [2] differ beside axis 0",
    );
    refused(einsum("ij,jk->ik", &[&x(&[2, 3]), &x(&[4, 2])]), "`einsum`: axis `j` has 3 and 4 elements");
    refused(
        einsum("i->i", &[&x(&[2, 2])]),
        "`einsum`: `i` does not name each axis of shape [2, 2] by a letter",
    );
    refused(einsum("ii->i", &[&x(&[2, 3])]), "`einsum`: axis `i` has 2 and 3 elements");
    refused(einsum("ij", &[&x(&[2, 2])]), "`einsum`: `ij` has no `->` and the axes of the result");
    refused(x(&[2]).broadcast_to(&[3]), "`broadcast_to`: shape [2] does not stretch to [3]");
}

/// Operations that are made of others are named themselves, with the shapes that were given.
#[test]
fn shapes_for_operations_of_several() {
    refused(x(&[6]).slice_step(0, .., 0), "`slice_step`: .. in steps of 0 is no part of axis 0 of shape [6]");
    let [two, three] = [2, 3].map(|extent| x(&[extent]));
    refused(
        three.layer_norm(&two, &three, 1e-5),
        "`layer_norm`: shapes [3] and [2] and [3] do not broadcast: axes must be equal, or 1",
    );
    refused(
        three.layer_norm(&three, &two, 1e-5),
        "`layer_norm`: shapes [3] and [3] and [2] do not broadcast: axes must be equal, or 1",
    );
    refused(
        three.rms_norm(&two, 1e-5),
        "`rms_norm`: shapes [3] and [2] do not broadcast: axes must be equal, or 1",
    );
    refused(x(&[]).rms_norm(&two, 1e-5), "`rms_norm`: shape [] has no axis -1");
    let image = x(&[2, 4, 3]);
    refused(image.group_norm(2, &three, &three, 1e-5), "`group_norm`: 2 groups do not divide 3 channels");
    refused(image.group_norm(0, &three, &three, 1e-5), "`group_norm`: 0 groups do not divide 3 channels");
    refused(image.group_norm(3, &three, &x(&[1]), 1e-5), "`group_norm`: a bias of shape [1] for 3 channels");
    refused(
        three.group_norm(3, &three, &three, 1e-5),
        "`group_norm`: shape [3] is not [batch, .., channels]",
    );
    let places = x(&[4]);
    refused(image.rotary(&places, 1e4, Pairs::Halves), "`rotary`: shape [2, 4, 3] has an odd width");
    refused(
        x(&[4, 2]).rotary(&places, 1e4, Pairs::Halves),
        "`rotary`: shape [4, 2] is not [.., length, heads, width]",
    );
    refused(
        x(&[5, 1, 2]).rotary(&places, 1e4, Pairs::Neighbors),
        "`rotary`: places of shape [4] do not broadcast to [5]",
    );
    let device = Device::open("interp").unwrap();
    let classes = Array::new(&device, &[0], &[1]);
    refused(x(&[1, 0]).cross_entropy(&classes), "`cross_entropy`: logits of shape [1, 0] are of no classes");
    refused(
        classes.one_hot(2, Scalar::U64),
        "`one_hot` of u64: arrays are of bool, i8, u8, i16, u16, i32, u32, i64, f16, bf16, f32 or f64; cast the elements first",
    );
    refused(Array::new(&device, &[1.0f32], &[2]), "`new`: 1 elements do not fill shape [2], which has 2");
    let many = "shape [1099511627776] has more than 4,294,967,295 random numbers of one key";
    refused(Key::new(1).uniform(&device, &[1 << 40]), &format!("`uniform`: {many}"));
    refused(Key::new(1).normal(&device, &[1 << 40]), &format!("`normal`: {many}"));
    refused(
        x(&[1, 2, 5]).conv1d(&x(&[3, 3, 2]), 1, 0),
        "`conv1d`: signals of shape [1, 2, 5] and a weight of shape [3, 3, 2]: they are [count, channels, \
         length] and [outputs, channels, width]",
    );
    refused(
        x(&[1, 2, 5]).conv_transpose1d(&x(&[3, 3, 2]), 1, 0),
        "`conv_transpose1d`: signals of shape [1, 2, 5] and a weight of shape [3, 3, 2]: the channels differ",
    );
    let image = x(&[1, 3, 5, 5]);
    let with = |shape: &[usize], options: Convolution| image.convolve2d(&x(shape), options);
    let error = |array: Array| array.error().unwrap().to_string();
    let of = "`convolve2d`: images of shape [1, 3, 5, 5] and a weight of shape";
    for (wrong, problem) in [
        (
            with(&[4, 1, 2, 2], Convolution::new().groups(3)),
            "[4, 1, 2, 2]: 3 groups do not divide 3 channels and 4 outputs",
        ),
        (
            with(&[3, 2, 2, 2], Convolution::new().groups(3)),
            "[3, 2, 2, 2]: 3 groups of 1 channels, and the weight is for 2",
        ),
        (
            with(&[3, 3, 2, 2], Convolution::new().dilation([0, 1])),
            "[3, 3, 2, 2]: windows of 2 x 2 elements at distances of [0, 1]",
        ),
    ] {
        assert!(error(wrong.clone()).ends_with(&format!("{of} {problem}")), "{}", error(wrong));
    }
    refused(
        Conv2d::new(&device, Key::new(1), 3, 2, 4).forward(&x(&[1, 5, 5, 3])),
        "`conv2d`: x has shape [1, 5, 5, 3], and 3 channels in windows of 3 x 3 are not the 18 elements that \
         each of the layer's windows has",
    );
    refused(
        vjp(Array::exp, &two).1(&three),
        "gradients [f32 [3]] for results [f32 [2]] of `vjp`: their element types and shapes must be the same",
    );
}

/// A function that does not use its arrays has the error of those all the same.
#[test]
fn functions_that_do_not_use_what_is_wrong() {
    let one = || x(&[]);
    refused(vmap(|_: &Array| one(), &x(&[])), "`vmap`: shape [] has no axis 0");
    refused(
        vmap(|_: &[Array; 2]| one(), &[x(&[2]), x(&[3])]),
        "`vmap`: axis 0 of shape [3] is not as long as that of shape [2]",
    );
    let of_parts = |x: &Array| scan(|_: &Array, _: &Array| (one(), one()), one(), x);
    for wrong in [of_parts(&one()).0, of_parts(&one()).1] {
        assert!(wrong.error().unwrap().to_string().contains("`scan`: a number has no parts"));
    }
    let wrong = || x(&[2]).reshape(&[3]);
    for of in [
        of_parts(&wrong()).1,
        vmap(|_: &Array| one(), &wrong()),
        custom_vjp(&[&wrong()], |_| one(), |_, _, g| vec![g.clone()]),
        custom_jvp(&[&wrong()], |_| one(), |_, _, t| t[0].clone()),
    ] {
        assert!(of.eval().unwrap_err().to_string().contains("`reshape`: 2 elements do not fill shape [3]"));
    }
}

/// Arrays of two devices, of types and of shapes that an operation inside is not for: the operation
/// that was called says so, and nothing panics.
#[test]
fn what_operations_inside_would_refuse() {
    let device = Device::open("interp").unwrap();
    let there = |shape: &[usize]| Array::ones(&Device::open("cpu").unwrap(), Scalar::F32, shape);
    let two = "one array is on interp and the other on cpu; `to_device` copies an array";
    let image = x(&[1, 1, 2, 2]);
    refused(x(&[2, 2]).solve(&there(&[2, 2])), &format!("`solve`: {two}"));
    refused(x(&[2, 2]).solve_triangular(&there(&[2]), true), &format!("`solve_triangular`: {two}"));
    let other = there(&[1, 1, 2, 2]);
    refused(image.conv_transpose2d(&other, [1, 1], [0, 0]), &format!("`conv_transpose2d`: {two}"));
    refused(image.convolve2d(&other, Convolution::new()), &format!("`convolve2d`: {two}"));
    let above = x(&[2]).greater(0.0);
    refused(cond(&above, &there(&[2]), Array::exp, Array::sin), &format!("`cond`: {two}"));
    refused(jvp(Array::exp, &x(&[2]), &there(&[2])).1, &format!("`jvp`: {two}"));
    refused(vjp(Array::exp, &x(&[2])).1(&there(&[2])), &format!("`vjp`: {two}"));
    refused(x(&[2]).rms_norm(&there(&[2]), 0.0), &format!("`rms_norm`: {two}"));
    let layer = Linear::new(&device, Key::new(1), 3, 5);
    refused(layer.forward(&x(&[2, 4])), "`linear`: x has shape [2, 4], and the layer 3 inputs");
    let layer = Attention::new(&device, Key::new(1), 4, 1);
    refused(layer.forward(&x(&[1, 3, 6])), "`linear`: x has shape [1, 3, 6], and the layer 4 inputs");
    let swapped = "one array is on cpu and the other on interp; `to_device` copies an array";
    refused(layer.forward(&there(&[1, 3, 4])), &format!("`matmul`: {swapped}"));
    let bools = image.greater(0.0);
    let hint = "it is for numbers; cast to i32 first, or use `&`, `|` and `^`";
    refused(bools.conv_transpose2d(&bools, [1, 1], [0, 0]), &format!("`conv_transpose2d` of bool: {hint}"));
    refused(
        x(&[3, 0]).matrix_norm(MatrixNorm::Spectral),
        "`matrix_norm`: matrices of shape [3, 0] have no greatest singular value",
    );
}

/// The function that `vjp` gives does not borrow the parameters.
#[test]
fn a_pull_back_outlives_its_parameters() {
    let (_, pull_back) = vjp(Array::square, &x(&[2]));
    assert_eq!(pull_back(&x(&[2])).to_vec::<f32>().unwrap(), [2.0; 2]);
}

#[test]
fn types_that_an_operation_is_not_for() {
    let flag = x(&[2]).greater(0.0);
    refused(-&flag, "`neg` of bool: it is for numbers; cast to i32 first, or use `&`, `|` and `^`");
    refused(&x(&[2]) & &x(&[2]), "`and` of f32: it is for integers and bool");
    refused(
        x(&[2]).where_(&x(&[2]), 0.0),
        "`where` of f32: the condition is an array of bool, such as `x.greater(0)`",
    );
    refused(x(&[2]).take(&x(&[1]), 0), "`take` of f32: indices are integers");
    refused(
        x(&[2]).cast(Scalar::I32).pad_with(&[(1, 0)], Padding::Constant(0.5)),
        "`pad_with`: 0.5 is no element of type i32",
    );
    refused(
        x(&[2]).cast(Scalar::U8).pad_with(&[(1, 0)], Padding::Constant(-1.0)),
        "`pad_with`: -1 is no element of type u8",
    );
    refused(
        x(&[2, 0]).pad_with(&[(1, 0), (0, 1)], Padding::Edge),
        "`pad_with`: axis 1 has no elements to go on with",
    );
    refused(
        x(&[2]).pad_with(&[(1, 0), (0, 1)], Padding::Wrap),
        "`pad_with`: 2 pairs of widths for shape [2]",
    );
    let device = Device::open("interp").unwrap();
    refused(
        Array::new(&device, &[1u64], &[1]),
        "`new` of u64: arrays are of bool, i8, u8, i16, u16, i32, u32, i64, f16, bf16, f32 or f64; cast the elements first",
    );
    refused(
        x(&[2]).cast(Scalar::E4M3),
        "`cast` of e4m3: arrays are of bool, i8, u8, i16, u16, i32, u32, i64, f16, bf16, f32 or f64; cast the elements first",
    );
}

#[test]
fn what_is_found_out_later() {
    let device = Device::open("interp").unwrap();
    let other = Array::new(&Device::open("cpu").unwrap(), &[1.0f32], &[1]);
    let error = (&x(&[1]) + &other).eval().unwrap_err().to_string();
    assert!(
        error.contains("`add`: one array is on interp and the other on cpu; `to_device` copies an array"),
        "{error}"
    );

    let at = Array::new(&device, &[0i32, 5], &[2]);
    let error = x(&[3]).take(&at, 0).to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains("an index lies outside of its axis"), "{error}");
    // Also where all elements along the axis are equal, so that no element depends on the index.
    let of_equal = [
        Array::zeros(&device, Scalar::F32, &[3, 2]).take(&at, 0),
        x(&[3, 1]).broadcast_to(&[3, 4]).take(&at, 1),
        Array::arange(&device, 3).unsqueeze(1).broadcast_to(&[3, 2]).take(&at, 1),
        Array::ones(&device, Scalar::F32, &[2, 3]).cross_entropy(&at),
    ];
    for y in of_equal {
        let error = y.eval().and_then(|()| y.cast(Scalar::F32).to_vec::<f32>()).unwrap_err().to_string();
        assert!(error.contains("an index lies outside of its axis"), "{error}");
    }

    let error = x(&[3]).item::<f32>().unwrap_err().to_string();
    assert!(error.contains("`item`: shape [3] does not have one element"), "{error}");
    let error = x(&[3]).to_vec::<i32>().unwrap_err().to_string();
    assert!(error.contains("expected elements of i32, got a tensor of f32 and shape [3]"), "{error}");
    assert_eq!(error.matches("tests/errors.rs").count(), 1, "{error}");

    let (fine, wrong) = (x(&[2]).exp(), x(&[2]).reshape(&[3]));
    assert!(eval(&[&fine, &wrong]).is_err());
    assert!(eval(&[&fine]).is_ok());
    let error = grad(|x| x.reshape(&[7]).sum(), &x(&[2])).eval().unwrap_err().to_string();
    assert!(error.contains("`reshape`: 2 elements do not fill shape [7]"), "{error}");
    assert!(wrong.to_string().starts_with("an array without elements: "));
}

#[test]
fn long_chains_are_computed_and_freed() {
    let device = Device::open("interp:fast").unwrap();
    let mut x = Array::new(&device, &[0.0f32, 1.0], &[2]);
    for _ in 0..3000 {
        x += 1.0;
    }
    assert_eq!(x.slice(0, 1..).item::<f32>().unwrap(), 3001.0);
    let mut never = Array::new(&device, &[0.0f32], &[1]);
    for _ in 0..50_000 {
        never += 1.0;
    }
    drop(never);
}

#[test]
fn arrays_are_sent_between_threads() {
    let x = x(&[64]);
    let sums = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|i| (i, x.clone()))
            .map(|(i, x)| scope.spawn(move || (x * i).sum().item::<f32>()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(sums, [0.0, 64.0, 128.0, 192.0]);
}
