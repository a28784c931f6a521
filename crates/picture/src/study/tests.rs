use layercast_fec::MatrixCode;

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
    let fifo = of(SharedPolicy::Fifo);
    // 1 - 1/1.05, the same of all classes.
    for loss in fifo.loss_percent {
        assert!(near(loss, 4.76, 1.5), "{fifo:?}");
    }
    let clp = of(SharedPolicy::Clp);
    assert_eq!(clp.loss_percent[..2], [0.0, 0.0]);
    // 4.76 % in the 42 % that have CLP = 1.
    assert!(
        near(clp.loss_percent[2], 11.3, 3.0) && near(clp.loss_percent[3], 11.3, 3.0),
        "{clp:?}"
    );
    let exclp = of(SharedPolicy::ExClp);
    assert_eq!(exclp.loss_percent[..2], [0.0, 0.0]);
    assert!(
        exclp.loss_percent[2] < 0.5 && near(exclp.loss_percent[3], 36.6, 3.0),
        "{exclp:?}"
    );
    let epd = of(SharedPolicy::ExClpEpd);
    assert_eq!(epd.loss_percent[..2], [0.0, 0.0]);
    assert!(near(epd.loss_percent[3], 36.6, 3.0), "{epd:?}");
    let decodable = [&epd, &exclp, &clp, &fifo].map(|run| run.decodable_percent);
    assert!(decodable.is_sorted_by(|a, b| a > b), "{decodable:?}");
}

#[test]
fn without_smoothing_i_pictures_are_lost_below_a_load_of_1() {
    // specs/mpeg-picture-quality.md 5.2, warning.
    let of = |smoothing, policy| {
        run(|it| {
            (it.sources, it.bps, it.load) = (20, 4e6, 0.8);
            (it.smoothing, it.policy, it.seconds) = (smoothing, policy, 10.0);
        })
    };
    let rough = of(Smoothing::None, SharedPolicy::ExClp);
    assert!(rough.loss_percent[1] > 0.5, "{rough:?}");
    assert_eq!(rough.loss_percent[0], 0.0);
    for smoothing in [Smoothing::References, Smoothing::Gop] {
        let smooth = of(smoothing, SharedPolicy::ExClp);
        assert!(smooth.loss_percent[1] < rough.loss_percent[1], "{smooth:?}");
    }
    assert_eq!(
        of(Smoothing::Gop, SharedPolicy::Fifo).loss_percent,
        [0.0; 4]
    );
}

#[test]
fn a_fast_start_takes_from_others_what_the_policy_gives() {
    let of = |policy, fast_start| {
        run(|it| {
            (it.sources, it.bps, it.load, it.seconds) = (20, 4e6, 80.0 / 149.76, 5.0);
            (it.policy, it.fast_start) = (policy, fast_start);
        })
    };
    let start = VodFastStart::default();
    let alone = of(SharedPolicy::Fifo, None);
    assert_eq!((alone.loss_percent, alone.stored), ([0.0; 4], None));
    let fifo = of(SharedPolicy::Fifo, Some(start));
    // 80 and 120 Mbit/s on 149.76 for 3 s: what is above the link is lost, of 400 Mbit and of 360 + 8.
    let film = fifo.stored.expect("a stored video");
    let lost = 4.0 * fifo.loss_percent[1] + 3.68 * film.loss_percent[1];
    assert!(near(lost, 3.0 * (200.0 - 149.76), 6.0), "{fifo:?}");
    let exclp = of(SharedPolicy::ExClp, Some(start));
    assert_eq!(exclp.loss_percent[0], 0.0, "{exclp:?}");
    assert!(exclp.loss_percent[1] < fifo.loss_percent[1], "{exclp:?}");
    let stored = exclp.stored.expect("a stored video");
    // A GOP of 1.6 Mbit at 120 Mbit/s, and the buffer.
    assert!((13.0..20.0).contains(&stored.first_gop_ms), "{stored:?}");
    assert!((60.0..88.0).contains(&stored.ahead_seconds), "{stored:?}");
    let refused = Setting {
        fast_start: Some(VodFastStart {
            first_bps: 0,
            ..start
        }),
        ..Setting::default()
    };
    assert!(matches!(refused.run(), Err(SettingError::FastStart(_))));
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

fn matrix(code: MatrixCode, side: usize, loss: MatrixLoss, blocks: u32) -> MatrixRun {
    let setting = MatrixSetting {
        code,
        rows: side,
        columns: side,
        loss,
        blocks,
        seed: 1,
    };
    setting.run().expect("a good setting")
}

#[test]
fn parities_leave_what_the_closed_form_says() {
    let (rate, burst) = (0.01, 1.0);
    let of = |code, side, blocks| matrix(code, side, MatrixLoss::Random { rate, burst }, blocks);
    let within = |run: MatrixRun, expected: f64, part: f64| {
        assert!(run.residual_cells > 100, "{run:?}");
        assert!((run.residual / expected - 1.0).abs() < part, "{run:?}");
    };
    // p (1 - (1 - p)^N).
    within(of(MatrixCode::Columns, 4, 100_000), 3.94e-4, 0.1);
    within(of(MatrixCode::Columns, 10, 10_000), 9.56e-4, 0.1);
    // p (1 - (1 - p)^n - n p (1 - p)^(n - 1)), n = N + 1.
    within(of(MatrixCode::EvenOdd, 10, 50_000), 5.18e-5, 0.2);
    let lossy = of(MatrixCode::Columns, 4, 100_000);
    assert!(near(
        lossy.lost_cells as f64 / lossy.data_cells as f64,
        rate,
        0.0005
    ));
    assert_eq!(lossy.overhead_percent, 25.0);
}

#[test]
fn bursts_come_back_up_to_the_guarantee() {
    let whole = |code, cells| {
        let run = matrix(code, 4, MatrixLoss::Burst { cells }, 0);
        (run.whole, run.trials)
    };
    assert_eq!(whole(MatrixCode::Columns, 4), (20, 20));
    assert!(whole(MatrixCode::Columns, 5).0 < 20);
    assert_eq!(whole(MatrixCode::EvenOdd, 8), (24, 24));
    assert!(whole(MatrixCode::EvenOdd, 9).0 < 24);
}

#[test]
fn losses_in_bursts_have_their_rate() {
    let (rate, burst) = (0.02, 5.0);
    let run = matrix(
        MatrixCode::Columns,
        10,
        MatrixLoss::Random { rate, burst },
        20_000,
    );
    assert!(
        near(run.lost_cells as f64 / run.data_cells as f64, rate, 0.001),
        "{run:?}"
    );
    // The same loss hits fewer blocks.
    let alone = matrix(
        MatrixCode::Columns,
        10,
        MatrixLoss::Random { rate, burst: 1.0 },
        20_000,
    );
    assert!(run.whole > alone.whole, "{run:?} {alone:?}");
}

#[test]
fn each_pattern_of_a_column_gives_the_closed_form() {
    // N, code, exponent of the losses that a column survives, the residual at a loss of 1e-4 by the specification.
    for (rows, code, expected) in [
        (4, MatrixCode::Columns, 4.00e-8),
        (4, MatrixCode::EvenOdd, 1.0e-11),
        (10, MatrixCode::Columns, 1.00e-7),
        (10, MatrixCode::EvenOdd, 5.5e-11),
    ] {
        let setting = MatrixSetting {
            code,
            rows,
            columns: 1,
            loss: MatrixLoss::Every,
            blocks: 0,
            seed: 1,
        };
        let run = setting.run().expect("a good setting");
        let size = run.by_lost.len() as i32 - 1;
        assert_eq!(run.trials, 1 << size);
        let p: f64 = 1e-4;
        let terms = run.by_lost.iter().zip(0..);
        let residual = terms.map(|(&left, lost)| {
            left as f64 * p.powi(lost) * (1.0 - p).powi(size - lost) / rows as f64
        });
        let residual: f64 = residual.sum();
        assert!(
            (residual / expected - 1.0).abs() < 0.01,
            "{code:?}, {rows}: {residual}"
        );
    }
}

#[test]
fn losses_of_columns_are_of_those_columns() {
    let whole = |code, columns, cells| {
        let run = matrix(code, 10, MatrixLoss::Columns { columns, cells }, 2_000);
        assert_eq!(run.lost_cells, 2_000 * u64::from(columns * cells));
        run.whole as f64 / run.trials as f64
    };
    assert_eq!(whole(MatrixCode::Columns, 10, 1), 1.0);
    assert_eq!(whole(MatrixCode::Columns, 1, 2), 0.0);
    assert_eq!(whole(MatrixCode::EvenOdd, 10, 2), 1.0);
    let refused = |rows, columns, loss| {
        let setting = MatrixSetting {
            code: MatrixCode::Columns,
            rows,
            columns,
            loss,
            blocks: 1,
            seed: 1,
        };
        setting.run().expect_err("refused").to_string()
    };
    let columns = |columns, cells| MatrixLoss::Columns { columns, cells };
    assert!(refused(4, 4, columns(5, 1)).contains("columns"));
    assert!(refused(4, 4, columns(1, 5)).contains("cells"));
    assert!(refused(5, 5, MatrixLoss::Every).contains("20 of a block"));
}
