use super::*;
use crate::Mode;

fn run(change: impl FnOnce(&mut Setting)) -> Run {
    let mut setting = Setting {
        seconds: 2.0,
        ..Setting::default()
    };
    change(&mut setting);
    setting.run().expect("a good setting")
}

fn near(found: f64, expected: f64, within: f64) -> bool {
    (found - expected).abs() <= within
}

#[test]
fn sources_have_the_shares_of_the_paper() {
    let run = run(|it| it.load = 0.5);
    for (found, expected) in run.share_percent.into_iter().zip([5.0, 53.0, 29.0, 13.0]) {
        assert!(near(found, expected, 1.0), "{:?}", run.share_percent);
    }
    assert_eq!(run.loss_percent, [0.0; 4]);
    assert_eq!(run.decodable_percent, 100.0);
    // 100 videos at 30 pictures a second, less those that are not settled at the end.
    assert!((3_000..6_000).contains(&run.pictures), "{}", run.pictures);
}

#[test]
fn overload_is_lost_by_the_class_that_the_policy_says() {
    // Sizes of pictures vary: with equal ones each round of the phases is the same, and few videos lose all.
    let of = |policy| run(|it| (it.load, it.policy, it.seconds) = (1.05, policy, 10.0));
    let fifo = of(PolicyName::Fifo);
    // 1 - 1/1.05, the same of all classes.
    for loss in fifo.loss_percent {
        assert!(near(loss, 4.76, 1.5), "{fifo:?}");
    }
    let clp = of(PolicyName::Clp);
    assert_eq!(clp.loss_percent[..2], [0.0, 0.0]);
    // 4.76 % in the 42 % that have CLP = 1.
    assert!(
        near(clp.loss_percent[2], 11.3, 3.0) && near(clp.loss_percent[3], 11.3, 3.0),
        "{clp:?}"
    );
    let exclp = of(PolicyName::Exclp);
    assert_eq!(exclp.loss_percent[..2], [0.0, 0.0]);
    assert!(
        exclp.loss_percent[2] < 0.5 && near(exclp.loss_percent[3], 36.6, 3.0),
        "{exclp:?}"
    );
    let epd = of(PolicyName::ExclpEpd);
    assert_eq!(epd.loss_percent[..2], [0.0, 0.0]);
    assert!(near(epd.loss_percent[3], 36.6, 3.0), "{epd:?}");
    let decodable = [&epd, &exclp, &clp, &fifo].map(|run| run.decodable_percent);
    assert!(decodable.is_sorted_by(|a, b| a > b), "{decodable:?}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let of = |seed| run(|it| it.seed = seed);
    assert_eq!(of(3), of(3));
    assert_ne!(of(3), of(4));
}

#[test]
fn settings_out_of_range_are_refused() {
    let refused = |change: fn(&mut Setting)| {
        let mut setting = Setting::default();
        change(&mut setting);
        setting.run().expect_err("refused").to_string()
    };
    assert!(refused(|it| it.sources = 0).contains("sources"));
    assert!(refused(|it| it.load = f64::NAN).contains("load"));
    assert!(refused(|it| it.seconds = 1e9).contains("seconds"));
    assert!(refused(|it| it.bps = -1.0).contains("bps"));
    assert!(refused(|it| it.deviation = 2.0).contains("deviation"));
    assert!(refused(|it| it.buffer = 0).contains("buffer"));
}

/// Packets of one group of data: no tables, so all is class S.
fn sound(count: usize) -> Vec<[u8; 188]> {
    let packet = |number: usize| {
        let mut packet = [number as u8; 188];
        packet[..4].copy_from_slice(&[0x47, 0x01, 0x01, 0x10 | number as u8 & 15]);
        packet
    };
    (0..count).map(packet).collect()
}

#[test]
fn losses_of_cells_are_counted_in_packets() {
    let setting = LossSetting {
        mode: Mode::Mark,
        group: 8,
        rate: 0.01,
        burst: 1.0,
        seed: 1,
    };
    let packets = sound(20_000);
    let run = |setting: LossSetting| setting.run(&packets).expect("a good setting");
    let marked = run(setting);
    let lost: u64 = marked.lost_cells.iter().sum();
    assert!(near(lost as f64, 800.0, 100.0), "{lost} of 80 000 cells");
    assert_eq!((marked.overhead_percent, marked.damaged_packets), (0.0, 0));
    // A frame needs its eight cells, and the last one of the frame before it.
    let share = marked.missing_packets as f64 / 20_000.0;
    assert!(near(share, 1.0 - 0.99_f64.powi(9), 0.01), "{share}");
    let bursts = run(LossSetting {
        burst: 8.0,
        ..setting
    });
    assert!(bursts.missing_packets < marked.missing_packets / 2);
    let apart = run(LossSetting {
        mode: Mode::Separate,
        ..setting
    });
    assert_eq!(
        apart.whole_packets + apart.damaged_packets + apart.missing_packets,
        20_000
    );
    assert_eq!(
        LossSetting {
            rate: 0.0,
            ..setting
        }
        .run(&packets)
        .map(|it| it.whole_packets),
        Ok(20_000)
    );
    assert!(
        LossSetting {
            rate: 0.9,
            ..setting
        }
        .run(&packets)
        .is_err()
    );
    assert!(
        LossSetting {
            burst: 0.0,
            ..setting
        }
        .run(&packets)
        .is_err()
    );
    assert!(
        LossSetting {
            group: 99,
            mode: Mode::Separate,
            ..setting
        }
        .run(&packets)
        .is_err()
    );
}
