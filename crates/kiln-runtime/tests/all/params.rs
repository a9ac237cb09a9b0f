//! Parameters that safe code wrote, whose three methods contradict each other: a launch refuses
//! them with what differs, and nothing has changed then.

use kiln_lang::param::{ArgSink, Facts, IntFact, KernelParam, ParamDecl, SpecKey};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Error, Tensor};

/// What an argument of [`Liar`] packs, or declares, beside the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    Nothing,
    PacksNothing,
    PacksTwice,
    PacksANumber,
    PacksAnotherType,
    PacksAnotherRank,
    DeclaresAlignment,
    DeclaresExtents,
    DeclaresASmallSpan,
    PacksAnotherTensor,
}

/// Two tensors of a kernel that reads the first.
struct Liar {
    lie: Lie,
    honest: Tensor<f32, 1>,
    other: Tensor<f32, 1>,
    integers: Tensor<i32, 1>,
    matrix: Tensor<f32, 2>,
}

type Honest<'a> = &'a Tensor<f32, 1>;

impl KernelParam for Liar {
    type Arg = Liar;
    type Traced = Val<f32>;

    fn key(arg: &Liar, key: &mut SpecKey) {
        // Another tensor of the same key: that its facts differ is not in it.
        let lie = if arg.lie == Lie::PacksAnotherTensor { Lie::Nothing } else { arg.lie };
        key.word(lie as u64);
    }

    fn declare(arg: &Liar, name: &'static str, decl: &mut ParamDecl) -> Val<f32> {
        let known = |divisor| IntFact { divisor, ..IntFact::default() };
        let facts = match arg.lie {
            Lie::DeclaresAlignment => Facts { align: 1 << 31, ..Facts::default() },
            Lie::DeclaresExtents => {
                Facts { extents: [known(1 << 20)].into_iter().collect(), ..Facts::default() }
            }
            Lie::DeclaresASmallSpan => {
                Facts { strides: [known(2)].into_iter().collect(), ..Facts::default() }
            }
            _ => return Honest::declare(&&arg.honest, name, decl).tile(0, 4).load(0.0).sum(),
        };
        decl.view::<f32, 1>(name, facts).tile(0, 4).load(0.0).sum()
    }

    fn pack<'a>(arg: &'a Liar, sink: &mut dyn ArgSink<'a>) {
        match arg.lie {
            Lie::PacksNothing => {}
            Lie::PacksTwice => {
                arg.honest.pack(sink);
                arg.honest.pack(sink);
            }
            Lie::PacksANumber => sink.scalar(7u64.literal()),
            Lie::PacksAnotherType => arg.integers.pack(sink),
            Lie::PacksAnotherRank => arg.matrix.pack(sink),
            Lie::PacksAnotherTensor => arg.other.pack(sink),
            _ => arg.honest.pack(sink),
        }
    }
}

/// A read-only tensor that is declared as one to write.
struct Forged(Tensor<f32, 1>);

impl KernelParam for Forged {
    type Arg = Forged;
    type Traced = ViewMut<f32, 1>;

    fn key(_: &Forged, _: &mut SpecKey) {}

    fn declare(_: &Forged, name: &'static str, decl: &mut ParamDecl) -> ViewMut<f32, 1> {
        decl.view_mut(name, Facts::default())
    }

    fn pack<'a>(arg: &'a Forged, sink: &mut dyn ArgSink<'a>) {
        arg.0.pack(sink);
    }
}

/// A number that is said to be seven.
struct Seven(i64);

impl KernelParam for Seven {
    type Arg = Seven;
    type Traced = Val<i64>;

    fn key(_: &Seven, _: &mut SpecKey) {}

    fn declare(_: &Seven, name: &'static str, decl: &mut ParamDecl) -> Val<i64> {
        decl.scalar(name, IntFact { equals: Some(7), ..IntFact::default() })
    }

    fn pack(arg: &Seven, sink: &mut dyn ArgSink) {
        sink.scalar(arg.0.literal());
    }
}

#[kernel(crate = kiln_runtime)]
fn add_sum(liar: Liar, y: &mut Tensor<f32, 1>) {
    let tile = y.tile(program_id(0) * 4, 4);
    tile.store(tile.load(0.0) + liar);
}

#[kernel(crate = kiln_runtime)]
fn overwrite(forged: Forged) {
    let tile = forged.tile(program_id(0) * 4, 4);
    tile.store(tile.load(0.0) * 2.0);
}

#[kernel(crate = kiln_runtime)]
fn at_seven(seven: Seven, y: &mut Tensor<f32, 1>) {
    let tile = y.tile(program_id(0) * 4, 4);
    tile.store(tile.load(0.0) + seven.cast::<f32>());
}

fn liar(device: &Device, lie: Lie) -> Liar {
    // Four of five columns: the second tensor begins four bytes after an aligned address.
    let all = device.tensor(&[9.0, 1.0, 2.0, 3.0, 4.0], [5]).unwrap();
    Liar {
        lie,
        honest: device.tensor(&[1.0, 2.0, 3.0, 4.0], [4]).unwrap(),
        other: all.slice(0, 1..5).unwrap(),
        integers: device.tensor(&[1, 2, 3, 4], [4]).unwrap(),
        matrix: device.tensor(&[1.0, 2.0, 3.0, 4.0], [2, 2]).unwrap(),
    }
}

#[test]
fn what_differs_from_the_declaration_is_refused() {
    let f32s = "a read-only tensor of f32 and rank 1";
    let cases = [
        (Lie::PacksNothing, "`liar`", f32s, "a mutable tensor of f32 and rank 1"),
        (Lie::PacksTwice, "`y`", "a mutable tensor of f32 and rank 1", f32s),
        (Lie::PacksANumber, "`liar`", f32s, "a number of type u64"),
        (Lie::PacksAnotherType, "`liar`", f32s, "a read-only tensor of i32 and rank 1"),
        (Lie::PacksAnotherRank, "`liar`", f32s, "a read-only tensor of f32 and rank 2"),
        (Lie::DeclaresAlignment, "`liar`", f32s, "its address is a multiple of 2147483648 bytes"),
        (Lie::DeclaresExtents, "`liar`", f32s, "its extent 0 is a multiple of 1048576"),
        (Lie::DeclaresASmallSpan, "`liar`", f32s, "its stride 0 is a multiple of 2"),
        (Lie::PacksAnotherTensor, "`liar`", f32s, "its address is a multiple of 16 bytes"),
    ];
    for name in ["interp", "cpu"] {
        let device = Device::open_apart(name).unwrap();
        let mut y = device.tensor(&[1.0; 4], [4]).unwrap();
        add_sum(liar(&device, Lie::Nothing), &mut y).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [11.0; 4]);
        for (lie, at, declared, packed) in cases {
            let error = add_sum(liar(&device, lie), &mut y).launch(&device).unwrap_err();
            let Error::Parameter { kernel, argument, expected, given } = &error else {
                panic!("{lie:?}: {error}")
            };
            assert_eq!([kernel, argument, expected], ["add_sum", at, declared], "{lie:?}");
            assert!(given.ends_with(packed), "{lie:?}: {given}");
            assert_eq!(y.to_vec().unwrap(), [11.0; 4], "{lie:?}");
        }
    }
}

#[test]
fn a_shared_tensor_cannot_be_written() {
    for name in ["interp", "cpu"] {
        let device = Device::open_apart(name).unwrap();
        let x = device.tensor(&[1.0; 4], [4]).unwrap();
        let error = overwrite(Forged(x.alias())).launch(&device).unwrap_err();
        assert!(matches!(error, Error::Parameter { .. }), "{error}");
        assert_eq!(x.to_vec().unwrap(), [1.0; 4]);
    }
}

#[test]
fn a_number_is_what_it_is_said_to_be() {
    for name in ["interp", "cpu"] {
        let device = Device::open_apart(name).unwrap();
        let mut y = device.tensor(&[1.0; 4], [4]).unwrap();
        at_seven(Seven(7), &mut y).launch(&device).unwrap();
        let error = at_seven(Seven(8), &mut y).launch(&device).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a parameter of `at_seven` packs one of which it is not true that it is 7 for `seven`, where it declared a number of \
             type i64: `KernelParam::pack` must hand over what `declare` declares, in the same order, and `key` must tell apart \
             what is declared differently"
        );
        assert_eq!(y.to_vec().unwrap(), [8.0; 4]);
    }
}
