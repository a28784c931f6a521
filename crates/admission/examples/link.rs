//! Runs the paper's link for an hour with each target of late bits:
//! `cargo run -p layercast-admission --example link -- 3600`.

use layercast_admission::study::Setting;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args()
        .nth(1)
        .map_or(Ok(3_600.0), |it| it.parse())?;
    println!("10 Mbit/s, 4.3 times overloaded, {seconds} s");
    println!("target %   late %  utilisation %  window s  admitted  refused");
    for target in [0.01, 0.1, 1.0] {
        let run = Setting {
            target,
            seconds,
            ..Setting::default()
        }
        .run()?;
        println!(
            "{target:8} {:8.3} {:14.1} {:9.2} {:9} {:8}",
            run.late, run.utilisation, run.window_s, run.admitted, run.rejected
        );
    }
    Ok(())
}
