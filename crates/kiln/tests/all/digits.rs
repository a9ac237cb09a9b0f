//! The digits example: the same training on every device, and a network that has learned.

use crate::data::{self, Set};
use crate::model::{Network, Recipe};
use kiln::Device;

const RECIPE: Recipe = Recipe::DIGITS;

/// The losses of the first steps.
fn losses(device: &str, recipe: Recipe, set: &Set, steps: usize) -> Vec<f32> {
    let device = Device::open(device).unwrap();
    let mut losses = Vec::new();
    let mut network = Network::new(&device, recipe, set.size, 10).unwrap();
    network.train(set, steps, |_, _, loss| losses.push(loss)).unwrap();
    assert_eq!(losses.len(), steps);
    losses
}

#[test]
fn losses_agree_between_devices() {
    let (train, _) = data::digits().unwrap();
    let small = Recipe { hidden: 48, ..RECIPE };
    let [interp, cpu] = ["interp", "cpu"].map(|device| losses(device, small, &train, 8));
    for (step, (a, b)) in interp.iter().zip(&cpu).enumerate() {
        assert!((a - b).abs() <= 1e-5 * a.abs(), "step {step}: {a} on interp, {b} on cpu");
    }
    assert!(cpu[7] < cpu[0], "the loss falls: {cpu:?}");
}

#[test]
fn equal_seeds_give_equal_losses_bit_for_bit() {
    let (train, _) = data::digits().unwrap();
    let bits = |device, seed, steps| -> Vec<u32> {
        losses(device, Recipe { seed, ..RECIPE }, &train, steps).iter().map(|l| l.to_bits()).collect()
    };
    assert_eq!(bits("cpu", 3, 60), bits("cpu", 3, 60));
    assert_eq!(bits("interp", 3, 2), bits("interp", 3, 2));
    assert_ne!(bits("cpu", 3, 2), bits("cpu", 4, 2));
}

#[test]
fn a_trained_network_knows_its_digits() {
    let (train, test) = data::digits().unwrap();
    let device = Device::open("cpu").unwrap();
    let mut network = Network::new(&device, RECIPE, train.size, 10).unwrap();
    network.train(&train, usize::MAX, |_, _, _| ()).unwrap();
    let accuracy = network.count_correct(&test).unwrap() as f64 / test.len() as f64;
    assert!(accuracy >= 0.97, "test accuracy {accuracy}");
}
