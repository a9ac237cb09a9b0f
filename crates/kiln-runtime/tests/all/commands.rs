//! Command lists: on a device that has graphs, and on one without.

use crate::kernels::{add, assert_works, double};
use crate::probe::Probe;
use kiln_ir::Literal;
use kiln_lang::prelude::*;
use kiln_runtime::{Activity, CommandList, Device, DiskCache, DynTensor, Error, Tensor};
use std::sync::atomic::Ordering::SeqCst;

/// z = a x + y.
#[kernel(crate = kiln_runtime)]
fn axpy(x: &Tensor<f32, 1>, y: &Tensor<f32, 1>, z: &mut Tensor<f32, 1>, a: Val<f32>) {
    let at = program_id(0) * 8;
    z.tile(at, 8).store(x.tile(at, 8).load(0.0) * a + y.tile(at, 8).load(0.0));
}

/// A device without graphs, and one with; both have a pool of memory.
fn probes() -> [(Device, Probe); 2] {
    let all = [(), ()].map(|()| Probe::device(false, DiskCache::none()));
    all.iter().for_each(|(_, probe)| probe.pool_memory());
    all[1].1.provide_graphs();
    all
}

fn f32_of(number: Literal) -> f32 {
    f32::from_bits(number.bits() as u32)
}

/// u = a x + y; v = 2 (u + b), by six launches; w = zeros + u, by a fill.
fn list(device: &Device, [x, y]: [&Tensor<f32, 1>; 2]) -> kiln_runtime::Result<CommandList> {
    let n = x.len();
    device.command_list(&[x.as_dyn(), y.as_dyn()], &[1.0f32.literal(), 1.0f32.literal()], |numbers| {
        let [mut u, mut v, mut w] = [device.uninit([n])?, device.uninit([n])?, device.uninit([n])?];
        axpy(x, y, &mut u, f32_of(numbers[0])).launch(device)?;
        let mut between = device.uninit([n])?;
        add(&u, &mut between, f32_of(numbers[1])).launch(device)?;
        add(&between, &mut v, 0.0).launch(device)?;
        double(&mut v).launch(device)?;
        let zeros = device.zeros([n])?;
        axpy(&zeros, &u, &mut w, 3.0).launch(device)?;
        let copy = v.copy()?;
        Ok(vec![u.into_dyn(), copy.into_dyn(), w.into_dyn()])
    })
}

#[track_caller]
fn assert_runs(device: &Device, list: &CommandList, n: usize, round: usize) -> Vec<DynTensor> {
    let data = |k: usize| -> Vec<f32> { (0..n).map(|i| ((i * 7 + k * 5 + round) % 11) as f32).collect() };
    let (x, y) = (data(0), data(1));
    let [tx, ty] = [&x, &y].map(|data| device.tensor(data, [n]).unwrap());
    let (a, b) = (2.0 + round as f32, round as f32 / 2.0);
    let made = list.run(device, &[tx.as_dyn(), ty.as_dyn()], &[a.literal(), b.literal()]).expect("it runs");
    let u: Vec<f32> = x.iter().zip(&y).map(|(x, y)| a * x + y).collect();
    let v: Vec<f32> = u.iter().map(|u| 2.0 * (u + b)).collect();
    let got: Vec<Vec<f32>> = made.iter().map(|tensor| tensor.to_vec().unwrap()).collect();
    assert_eq!(got, [u.clone(), v, u], "round {round}");
    made
}

/// What a list makes. It does not run while another test observes what the process does.
fn ran(list: &CommandList, device: &Device, inputs: &[&DynTensor], numbers: &[Literal]) -> Vec<DynTensor> {
    for _ in 0..10_000 {
        if let Some(made) = list.run(device, inputs, numbers) {
            return made;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("the list does not run");
}

#[test]
fn a_list_runs_on_other_tensors_and_numbers() {
    for (device, probe) in probes() {
        for n in [0, 5, 20] {
            let [x, y] = [1.0, 2.0].map(|value| device.tensor(&vec![value; n], [n]).unwrap());
            let before = probe.counts().launches.load(SeqCst);
            let list = list(&device, [&x, &y]).unwrap();
            assert_eq!(probe.counts().launches.load(SeqCst), before, "nothing runs");
            // Five launches, and the copy and the fill of what has elements.
            assert_eq!(list.len(), if n == 0 { 5 } else { 7 });
            // Three that are given, and one in whose place the others lie.
            assert!(list.bytes() <= 3 * 4 * n + 3 * 256, "{}", list.bytes());
            let mut kept = Vec::new();
            for round in 0..12 {
                let made = assert_runs(&device, &list, n, round);
                // Some are kept, so that the next ones lie elsewhere.
                if round % 3 == 1 {
                    kept.push(made);
                }
            }
        }
        assert_eq!(probe.events(), (0, 0), "one stream needs no events");
        probe.assert_ordered();
        assert_works(&device);
    }
}

fn graphs(probe: &Probe) -> [usize; 3] {
    let counts = probe.counts();
    [&counts.graphs_built, &counts.graphs_updated, &counts.graphs_launched].map(|count| count.load(SeqCst))
}

/// The addresses of a run are those of one before: then a graph is built, and changed in place.
#[test]
fn runs_with_the_same_memory_are_one_call_of_the_device() {
    let [_, (device, probe)] = probes();
    let [x, y] = [1.0, 2.0].map(|value| device.tensor(&[value; 20], [20]).unwrap());
    let list = list(&device, [&x, &y]).unwrap();
    let run = |a: f32, b: f32| {
        let made = ran(&list, &device, &[x.as_dyn(), y.as_dyn()], &[a.literal(), b.literal()]);
        made[1].to_vec::<f32>().unwrap()[0]
    };
    assert_eq!((run(1.0, 0.0), graphs(&probe)), (6.0, [0, 0, 0]));
    // Until all orders in which the pool gives its memory were seen.
    for _ in 0..8 {
        assert_eq!(run(1.0, 0.0), 6.0);
    }
    let before = graphs(&probe);
    assert!((1..=3).contains(&before[0]) && before[2] >= 4, "{before:?}");
    let more = |built: usize, updated: usize, launched: usize| {
        [before[0] + built, before[1] + updated, before[2] + launched]
    };
    let launches = probe.counts().launches.load(SeqCst);
    assert_eq!((run(1.0, 0.0), graphs(&probe)), (6.0, more(0, 0, 1)));
    // A number changes one node.
    assert_eq!((run(1.0, 4.0), graphs(&probe)), (14.0, more(0, 1, 2)));
    assert_eq!(run(2.0, 4.0), 16.0);
    assert_eq!(graphs(&probe)[0], before[0]);
    assert_eq!(probe.counts().launches.load(SeqCst), launches + 3 * 5);
    probe.assert_ordered();
}

#[test]
fn a_graph_is_not_built_where_all_numbers_change() {
    let [_, (device, probe)] = probes();
    let x = device.tensor(&[1.0; 20], [20]).unwrap();
    let list = device
        .command_list(&[x.as_dyn()], &[0.0f32.literal()], |numbers| {
            let mut last = device.uninit([20])?;
            add(&x, &mut last, f32_of(numbers[0])).launch(&device)?;
            for _ in 0..5 {
                let mut next = device.uninit([20])?;
                add(&last, &mut next, f32_of(numbers[0])).launch(&device)?;
                last = next;
            }
            Ok(vec![last.into_dyn()])
        })
        .unwrap();
    for round in 0..30 {
        let by = round as f32;
        let made = ran(&list, &device, &[x.as_dyn()], &[by.literal()]);
        assert_eq!(made[0].to_vec::<f32>().unwrap(), [1.0 + 6.0 * by; 20]);
    }
    assert!(graphs(&probe)[0] <= 2, "{:?}", graphs(&probe));
    probe.assert_ordered();
}

/// As parameters in a training: each run reads what the one before has made.
#[test]
fn results_that_are_the_next_inputs_alternate_between_graphs() {
    let [_, (device, probe)] = probes();
    let mut x = device.tensor(&[1.0; 20], [20]).unwrap();
    let chain = device
        .command_list(&[x.as_dyn()], &[], |_| {
            let [mut a, mut b] = [device.uninit([20])?, device.uninit([20])?];
            add(&x, &mut a, 1.0).launch(&device)?;
            double(&mut a).launch(&device)?;
            add(&a, &mut b, -3.0).launch(&device)?;
            double(&mut b).launch(&device)?;
            Ok(vec![b.into_dyn()])
        })
        .unwrap();
    let mut value = 1.0f32;
    for _ in 0..10 {
        let made = ran(&chain, &device, &[x.as_dyn()], &[]);
        value = 2.0 * (2.0 * (value + 1.0) - 3.0);
        x = made.into_iter().next().unwrap().downcast().unwrap();
    }
    assert_eq!(x.to_vec().unwrap(), [value; 20]);
    let [built, _, launched] = graphs(&probe);
    assert!(built <= 3 && launched >= 5, "{built} {launched}");
    probe.assert_ordered();
}

#[test]
fn what_is_of_another_kind_is_not_run() {
    for (device, probe) in probes() {
        let long = device.tensor(&[3.0; 64], [64]).unwrap();
        let [x, y] = [1.0, 2.0].map(|value| device.tensor(&[value; 20], [20]).unwrap());
        let list = list(&device, [&x, &y]).unwrap();
        let numbers = [1.0f32.literal(), 2.0f32.literal()];
        let run = |inputs: &[&DynTensor], numbers: &[Literal]| list.run(&device, inputs, numbers).is_some();
        assert!(run(&[x.as_dyn(), y.as_dyn()], &numbers));
        assert!(!run(&[x.as_dyn()], &numbers));
        assert!(!run(&[x.as_dyn(), y.as_dyn()], &numbers[..1]));
        assert!(!run(&[x.as_dyn(), y.as_dyn()], &[1.0f32.literal(), 2i32.literal()]));
        assert!(!run(&[x.as_dyn(), device.zeros::<f32, 1>([21]).unwrap().as_dyn()], &numbers));
        assert!(!run(&[x.as_dyn(), device.zeros::<i32, 1>([20]).unwrap().as_dyn()], &numbers));
        // Aligned in another way.
        assert!(!run(&[x.as_dyn(), long.slice(0, 1..21).unwrap().as_dyn()], &numbers));
        // Elsewhere in its memory.
        assert!(!run(&[x.as_dyn(), long.slice(0, 32..52).unwrap().as_dyn()], &numbers));
        // Nothing was written yet.
        assert!(!run(&[x.as_dyn(), device.uninit::<f32, 1>([20]).unwrap().as_dyn()], &numbers));
        // Two inputs that share memory, where they did not: both are only read.
        assert!(run(&[x.as_dyn(), x.as_dyn()], &numbers));
        let borrowed = x.with_host(|_| run(&[x.as_dyn(), y.as_dyn()], &numbers)).unwrap();
        assert!(!borrowed);
        let observation = device.observe(|_: &Activity| {});
        assert!(!run(&[x.as_dyn(), y.as_dyn()], &numbers));
        drop(observation);
        let (_, captured) = device.graph(|_| Ok(run(&[x.as_dyn(), y.as_dyn()], &numbers))).unwrap();
        assert!(!captured);
        let other = Probe::device(false, DiskCache::none()).0;
        assert!(list.run(&other, &[x.as_dyn(), y.as_dyn()], &numbers).is_none());
        probe.fail_launches(true);
        assert!(!run(&[x.as_dyn(), y.as_dyn()], &numbers));
        probe.fail_launches(false);
        assert!(run(&[x.as_dyn(), y.as_dyn()], &numbers));
        probe.assert_ordered();
    }
}

/// Inputs that share memory at the recording must share it in a run.
#[test]
fn views_of_one_tensor_stay_views_of_one() {
    let [(device, _), _] = probes();
    let both = device.tensor(&[1.0; 64], [64]).unwrap();
    let halves = |of: &Tensor<f32, 1>| [of.slice(0, 0..20).unwrap(), of.slice(0, 32..52).unwrap()];
    let [x, y] = halves(&both);
    let list = list(&device, [&x, &y]).unwrap();
    let numbers = [2.0f32.literal(), 0.0f32.literal()];
    let other = device.tensor(&(0..64).map(|i| i as f32).collect::<Vec<_>>(), [64]).unwrap();
    let [p, q] = halves(&other);
    let made = ran(&list, &device, &[p.as_dyn(), q.as_dyn()], &numbers);
    let expected: Vec<f32> = (0..20).map(|i| (3 * i + 32) as f32).collect();
    assert_eq!(made[0].to_vec::<f32>().unwrap(), expected);
    assert!(list.run(&device, &[x.as_dyn(), q.as_dyn()], &numbers).is_none());
}

#[test]
fn results_may_be_inputs_and_are_in_order_with_other_streams() {
    for (device, probe) in probes() {
        let stream = device.stream().unwrap();
        let x = device.tensor(&[1.0; 20], [4, 5]).unwrap();
        let list = device
            .command_list(&[x.as_dyn()], &[], |_| {
                let mut y = device.uninit([20])?;
                add(&x.reshape([20])?, &mut y, 1.0).launch(&device)?;
                Ok(vec![x.transpose().into_dyn(), y.into_dyn()])
            })
            .unwrap();
        for round in 0..6 {
            let mut given = device.tensor(&[round as f32; 20], [20]).unwrap();
            double(&mut given).on(&stream).launch(&device).unwrap();
            let given = given.reshape([4, 5]).unwrap();
            let made = ran(&list, &device, &[given.as_dyn()], &[]);
            assert_eq!(
                (made[0].shape(), made[0].to_vec::<f32>().unwrap()),
                (&[5, 4][..], vec![2.0 * round as f32; 20])
            );
            let mut after: Tensor<f32, 1> = made.into_iter().nth(1).unwrap().downcast().unwrap();
            double(&mut after).on(&stream).launch(&device).unwrap();
            assert_eq!(after.to_vec().unwrap(), [2.0 * (2.0 * round as f32 + 1.0); 20]);
        }
        probe.assert_ordered();
    }
}

#[test]
fn what_cannot_be_repeated_is_refused() {
    let [(device, probe), _] = probes();
    let x = device.tensor(&[1.0; 20], [20]).unwrap();
    let other = device.tensor(&[1.0; 20], [20]).unwrap();
    let stream = device.stream().unwrap();
    let input = x.alias();
    let inputs = [input.as_dyn()];
    let numbers = [1.0f32.literal()];
    let refused = |result: kiln_runtime::Result<CommandList>, text: &str| {
        let error = result.unwrap_err();
        let location =
            matches!(&error, Error::Commands { location, .. } if location.file().ends_with("commands.rs"));
        assert!(location && error.to_string().contains(text), "{error}");
    };
    let new = || device.uninit::<f32, 1>([20]);
    let none = |_: ()| Ok(Vec::new());
    let list = device.command_list(&inputs, &[], |_| double(&mut x.alias()).launch(&device).and_then(none));
    refused(list, "an input is written");
    let list = device.command_list(&inputs, &[], |_| Ok(vec![other.alias().into_dyn()]));
    refused(list, "a tensor is given that is no input");
    let list = device
        .command_list(&inputs, &[], |_| add(&x, &mut new()?, 1.0).on(&stream).launch(&device).and_then(none));
    refused(list, "another stream");
    let list = device.command_list(&inputs, &[], |_| device.tensor(&[1.0; 3], [3]).map(|_| Vec::new()));
    refused(list, "elements were copied from the host");
    let list =
        device.command_list(&inputs, &[], |_| add(&new()?, &mut new()?, 1.0).launch(&device).and_then(none));
    refused(list, "read that nothing has written");
    let list = device.command_list(&inputs, &[], |_| Ok(vec![new()?.into_dyn()]));
    refused(list, "no launch writes");
    let list = device.command_list(&inputs, &numbers, |numbers| {
        add(&x, &mut new()?, 2.0 * f32_of(numbers[0])).launch(&device).and_then(none)
    });
    refused(list, "computed from the numbers");
    let list = device.command_list(&inputs, &numbers, |numbers| match f32_of(numbers[0]) {
        1.0 => Ok(Vec::new()),
        _ => add(&x, &mut new()?, 1.0).launch(&device).and_then(none),
    });
    refused(list, "something else was launched the second time");
    let narrow = [true.literal(); 2];
    refused(device.command_list(&inputs, &narrow, |_| Ok(Vec::new())), "too many numbers");
    // The error of the closure is its own; a read waits.
    let read = device.command_list(&inputs, &[], |_| x.to_vec().map(|_| Vec::new()));
    assert!(matches!(read, Err(Error::Capture { .. })));
    assert_eq!(probe.counts().launches.load(SeqCst), 0);
    assert_works(&device);
}

/// sums = sums + x.
#[kernel(crate = kiln_runtime)]
fn accumulate(x: &Tensor<f32, 1>, sums: &mut Tensor<f32, 1>) {
    let at = program_id(0) * 8;
    sums.tile(at, 8).store(sums.tile(at, 8).load(0.0) + x.tile(at, 8).load(0.0));
}

/// As the tables and signals that a library keeps.
#[test]
fn tensors_that_were_there_are_the_same_in_all_runs() {
    for (device, probe) in probes() {
        let x = device.tensor(&[1.0; 20], [20]).unwrap();
        let table = device.tensor(&[5.0; 20], [20]).unwrap();
        let sums = device.zeros([20]).unwrap();
        let list = device
            .command_list(&[x.as_dyn()], &[], |_| {
                let mut y = device.uninit([20])?;
                axpy(&x, &table, &mut y, 2.0).launch(&device)?;
                accumulate(&y, &mut sums.alias()).launch(&device)?;
                accumulate(&x, &mut sums.alias()).launch(&device)?;
                double(&mut y).launch(&device)?;
                Ok(vec![y.into_dyn()])
            })
            .unwrap();
        let stream = device.stream().unwrap();
        for round in 1..8 {
            let made = ran(&list, &device, &[x.as_dyn()], &[]);
            assert_eq!(made[0].to_vec::<f32>().unwrap(), [14.0; 20]);
            assert_eq!(sums.to_vec().unwrap(), [8.0 * round as f32; 20]);
            // What other streams do with them is in order.
            let mut copy = device.uninit([20]).unwrap();
            add(&sums, &mut copy, 0.0).on(&stream).launch(&device).unwrap();
        }
        assert!(list.run(&device, &[sums.as_dyn()], &[]).is_none(), "an input that is written");
        assert!(list.run(&device, &[table.as_dyn()], &[]).is_some(), "one that is only read");
        drop(table);
        assert!(list.run(&device, &[x.as_dyn()], &[]).is_none(), "it is not kept alive");
        probe.assert_ordered();
    }
}

/// y = x, by a store that trusts its place: right for `at` 0 alone.
#[kernel(crate = kiln_runtime)]
fn trusting(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, at: Val<i64>) {
    let i = thread_index();
    // SAFETY: the launches have as many threads as there are elements, and `at` is 0.
    unsafe { y.scatter_unchecked(i + at, x.get_unchecked(i + at)) };
}

/// What `unsafe` code promised of a number it did not of others.
#[test]
fn a_number_of_unsafe_code_stays_as_it_was() {
    let [(device, _), _] = probes();
    let x = device.tensor(&[1.0; 20], [20]).unwrap();
    let list = device
        .command_list(&[x.as_dyn()], &[0i64.literal(), 2.0f32.literal()], |numbers| {
            let [mut y, mut z] = [device.uninit([20])?, device.uninit([20])?];
            trusting(&x, &mut y, numbers[0].as_i128() as i64).grid([1]).block([20]).launch(&device)?;
            add(&y, &mut z, f32_of(numbers[1])).launch(&device)?;
            Ok(vec![z.into_dyn()])
        })
        .unwrap();
    let run = |at: i64, by: f32| {
        let made = list.run(&device, &[x.as_dyn()], &[at.literal(), by.literal()])?;
        Some(made[0].to_vec::<f32>().unwrap()[19])
    };
    assert_eq!([run(0, 2.0), run(0, 5.0), run(1 << 40, 5.0)], [Some(3.0), Some(6.0), None]);
}

#[test]
fn threads_that_run_a_list_at_once_get_their_own_results() {
    for (device, probe) in probes() {
        let [x, y] = [1.0, 2.0].map(|value| device.tensor(&[value; 20], [20]).unwrap());
        let list = list(&device, [&x, &y]).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (device, list) = (&device, &list);
                scope.spawn(move || {
                    for round in 0..20 {
                        let value = (thread * 20 + round) as f32;
                        let given = device.tensor(&[value; 20], [20]).unwrap();
                        let numbers = [2.0f32.literal(), value.literal()];
                        // Where another thread runs it, the caller launches singly.
                        let Some(made) = list.run(device, &[given.as_dyn(), given.as_dyn()], &numbers) else {
                            continue;
                        };
                        assert_eq!(made[0].to_vec::<f32>().unwrap(), [3.0 * value; 20]);
                        assert_eq!(made[1].to_vec::<f32>().unwrap(), [8.0 * value; 20]);
                    }
                });
            }
        });
        probe.assert_ordered();
    }
}

/// Random launches on few tensors, of which those lie in one place that are not used at the same
/// time. The probe's graphs run their nodes in an order as unlike the recorded one as what they
/// wait for allows.
#[test]
fn random_lists_are_in_order() {
    let [_, (device, probe)] = probes();
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    for _ in 0..40 {
        let x = device.tensor(&[1.0; 20], [20]).unwrap();
        // What becomes of the values: from where, to where, and whether in memory that was in use.
        let steps: Vec<[usize; 3]> = (0..30).map(|_| [random(4), random(4), random(3)]).collect();
        let list = device
            .command_list(&[x.as_dyn()], &[], |_| {
                let mut all: Vec<Tensor<f32, 1>> = Vec::new();
                for at in 0..4 {
                    let mut new = device.uninit([20])?;
                    add(&x, &mut new, at as f32).launch(&device)?;
                    all.push(new);
                }
                for &[from, to, how] in &steps {
                    match how {
                        0 => double(&mut all[to]).launch(&device)?,
                        1 if from != to => {
                            let source = all[from].alias();
                            add(&source, &mut all[to], 1.0).launch(&device)?;
                        }
                        _ => {
                            let mut new = device.uninit([20])?;
                            add(&all[from], &mut new, -2.0).launch(&device)?;
                            all[to] = new;
                        }
                    }
                }
                Ok(all.into_iter().map(Tensor::into_dyn).collect())
            })
            .unwrap();
        let mut expected = [1.0f32, 2.0, 3.0, 4.0];
        for &[from, to, how] in &steps {
            expected[to] = match how {
                0 => 2.0 * expected[to],
                1 if from != to => expected[from] + 1.0,
                _ => expected[from] - 2.0,
            };
        }
        for _ in 0..6 {
            let made = ran(&list, &device, &[x.as_dyn()], &[]);
            let got: Vec<f32> = made.iter().map(|tensor| tensor.to_vec::<f32>().unwrap()[19]).collect();
            assert_eq!(got, expected);
        }
    }
    assert!(graphs(&probe)[2] >= 100, "{:?}", graphs(&probe));
    probe.assert_ordered();
}
