//! The model against the reference values of specs/ilp-hazards.md 5, within 1 ns an octet, and its laws.

use layercast_ilp::profile::{Function, Profile, Temperature};
use proptest::prelude::*;

const INSTR: [u32; 7] = [4, 10, 20, 40, 60, 80, 100];

fn close(what: &str, found: impl Iterator<Item = f64>, told: &[f64]) {
    let found: Vec<f64> = found.collect();
    assert_eq!(found.len(), told.len(), "{what}");
    for (here, told) in found.iter().zip(told) {
        assert!((here - told).abs() <= 1.0, "{what}: {found:?}");
    }
}

fn like(functions: usize, state: u32, instr: u32) -> Vec<Function> {
    vec![Function::synthetic(state, instr); functions]
}

#[test]
fn e1_of_both_machines() {
    use Temperature::{Cold, Warm};
    #[rustfmt::skip]
    let told: [(Profile, Temperature, [f64; 7], [f64; 7]); 4] = [
        (Profile::ss2(), Warm, [183., 295., 482., 858., 1232., 1608., 1982.], [318., 430., 618., 992., 1368., 1742., 2117.]),
        (Profile::ss2(), Cold, [226., 339., 526., 901., 1276., 1651., 2026.], [449., 561., 749., 1124., 1499., 1874., 2249.]),
        (Profile::hp(), Warm, [44., 90., 165., 317., 468., 620., 771.], [64., 110., 186., 337., 489., 640., 792.]),
        (Profile::hp(), Cold, [56., 102., 178., 329., 481., 632., 784.], [110., 150., 220., 365., 515., 666., 817.]),
    ];
    for (machine, temperature, fused, alone) in told {
        let of = |instr: u32| like(3, 2, instr);
        let what = format!("{} {temperature:?}", machine.name);
        let here = INSTR.map(|instr| machine.fused(&of(instr), temperature));
        close(&what, here.into_iter(), &fused);
        let here = INSTR.map(|instr| machine.sequential(&of(instr), temperature));
        close(&what, here.into_iter(), &alone);
    }
}

#[test]
fn e2_of_both_machines() {
    use Temperature::{Cold, Warm};
    #[rustfmt::skip]
    let told: [(Profile, Temperature, [f64; 10], [f64; 10]); 4] = [
        (Profile::ss2(), Warm, [295., 295., 389., 482., 576., 670., 764., 858., 951., 1045.], [430., 430., 430., 430., 430., 430., 524., 618., 711., 805.]),
        (Profile::ss2(), Cold, [339., 339., 432., 526., 620., 714., 807., 901., 995., 1089.], [561., 561., 561., 561., 561., 561., 655., 749., 842., 936.]),
        (Profile::hp(), Warm, [90., 90., 90., 90., 90., 99., 108., 117., 126., 135.], [110.; 10]),
        (Profile::hp(), Cold, [102., 102., 102., 102., 102., 111., 120., 129., 138., 147.], [150.; 10]),
    ];
    for (machine, temperature, fused, alone) in told {
        let what = format!("{} {temperature:?}", machine.name);
        let here = (1..=10).map(|state| machine.fused(&like(3, state, 10), temperature));
        close(&what, here, &fused);
        let here = (1..=10).map(|state| machine.sequential(&like(3, state, 10), temperature));
        close(&what, here, &alone);
    }
}

#[test]
fn e3_of_both_machines() {
    #[rustfmt::skip]
    let told: [(Profile, u32, [f64; 8]); 8] = [
        (Profile::ss2(), 1, [170., 233., 295., 358., 420., 482., 576., 670.]),
        (Profile::ss2(), 2, [170., 233., 295., 420., 545., 670., 795., 920.]),
        (Profile::ss2(), 3, [170., 233., 389., 545., 701., 858., 1014., 1170.]),
        (Profile::ss2(), 5, [170., 358., 576., 795., 1014., 1232., 1451., 1670.]),
        (Profile::hp(), 2, [39., 64., 90., 115., 140., 165., 191., 219.]),
        (Profile::hp(), 4, [39., 64., 90., 118., 155., 193., 230., 267.]),
        (Profile::hp(), 6, [39., 64., 99., 142., 186., 229., 272., 316.]),
        (Profile::hp(), 8, [39., 67., 117., 166., 216., 265., 315., 364.]),
    ];
    for (machine, state, fused) in told {
        let here = (1..=8).map(|n| machine.fused(&like(n, state, 10), Temperature::Warm));
        close(&format!("{} {state}", machine.name), here, &fused);
    }
    #[rustfmt::skip]
    let alone: [(Profile, [f64; 8]); 2] = [
        (Profile::ss2(), [170., 300., 430., 560., 690., 820., 950., 1080.]),
        (Profile::hp(), [39., 74., 110., 145., 181., 216., 251., 287.]),
    ];
    for (machine, told) in alone {
        let here = (1..=8).map(|n| machine.sequential(&like(n, 1, 10), Temperature::Warm));
        close(&machine.name, here, &told);
    }
}

#[test]
fn break_even_is_where_the_paper_has_it() {
    assert!((Profile::ss2().break_even_state() - 2.2).abs() < 0.05);
    assert!((Profile::hp().break_even_state() - 3.3).abs() < 0.05);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_the_sum_of_states_matters_to_a_fused_loop(states in prop::collection::vec(0..12_u32, 1..8), instr in 1..50_u32) {
        let own: Vec<Function> = states.iter().map(|state| Function::synthetic(*state, instr)).collect();
        let mut moved = own.clone();
        moved[0].state = states.iter().sum();
        moved[1..].iter_mut().for_each(|it| it.state = 0);
        for machine in [Profile::ss2(), Profile::hp()] {
            for temperature in [Temperature::Warm, Temperature::Cold] {
                prop_assert!((machine.fused(&own, temperature) - machine.fused(&moved, temperature)).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn the_gain_does_not_depend_on_instructions(n in 1..8_usize, state in 0..12_u32, instr in 1..100_u32) {
        let machine = Profile::ss2();
        let gain = |instr| {
            let functions = like(n, state, instr);
            machine.sequential(&functions, Temperature::Warm) - machine.fused(&functions, Temperature::Warm)
        };
        prop_assert!((gain(instr) - gain(10)).abs() < 1e-6);
        prop_assert!(n > 1 || gain(instr).abs() < 1e-9);
    }
}
