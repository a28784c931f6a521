//! What a monitor says of what was agreed, in words.

use layercast_core::{Answered, Contract, Judged, Level, Parameter, Quality, Rate, Zone};
use layercast_net::ZoneSignal;

/// A value of a parameter.
fn value(parameter: Parameter, value: f64) -> String {
    match parameter {
        // The casts saturate.
        Parameter::Throughput => Rate::from_bps(value.round() as u64).to_string(),
        Parameter::Delay | Parameter::Jitter => format!("{} ms", short(value * 1e3)),
        Parameter::ErrorRate => format!("{} %", short(value * 1e2)),
    }
}

/// A number with three digits that say something.
fn short(number: f64) -> String {
    match number.abs() {
        it if it >= 99.95 || it == 0.0 => format!("{number:.0}"),
        it if it >= 0.095 => format!("{number:.1}").trim_end_matches(".0").to_owned(),
        _ => format!("{number:.0e}"),
    }
}

/// What a parameter measures, as the subject of a sentence.
fn subject(parameter: Parameter) -> &'static str {
    match parameter {
        Parameter::Throughput => "throughput",
        Parameter::Delay => "delay in the network",
        Parameter::Jitter => "jitter",
        Parameter::ErrorRate => "lost or late",
    }
}

fn compared(parameter: Parameter, measured: f64, agreed: f64) -> String {
    let bound = match parameter {
        Parameter::Throughput => "at least",
        _ => "at most",
    };
    format!(
        "{} {}, {bound} {} agreed",
        subject(parameter),
        value(parameter, measured),
        value(parameter, agreed)
    )
}

/// What was agreed with a receiver, beside what is measured; empty if nothing is known.
pub fn beside(quality: &Quality) -> String {
    let judged = quality.judged();
    let told = judged.map(|(of, it)| compared(of, it.measured, it.agreed));
    told.collect::<Vec<_>>().join("; ")
}

/// What deviates from what was agreed; empty if nothing does.
pub fn reasons(quality: &Quality) -> impl Iterator<Item = String> {
    let deviates = |it: &(Parameter, Judged)| it.1.zone >= Zone::Yellow;
    let told = quality.judged().filter(deviates);
    told.map(|(parameter, it)| {
        let zone = it.zone.name();
        format!("{zone}: {}", compared(parameter, it.measured, it.agreed))
    })
}

/// That a zone has changed.
pub fn changed(signal: &ZoneSignal) -> String {
    let (from, to) = (signal.zone_from.name(), signal.zone_to.name());
    let said = compared(signal.parameter, signal.measured, signal.contract);
    format!("{from} -> {to}: {said}")
}

/// What a receiver with a profile and its source agreed.
pub fn agreed(answer: Answered, contract: &Contract, level: Level, committed: bool) -> String {
    let terms: Vec<String> = Parameter::ALL
        .into_iter()
        .filter_map(|parameter| {
            let term = contract.term(parameter)?;
            let least = value(parameter, term.agreed);
            Some(match (parameter, term.target) {
                (Parameter::Throughput, Some(most)) => {
                    let most = value(parameter, most);
                    format!("throughput {least} at least and {most} at most")
                }
                // Nothing is too little of a rate that varies.
                (Parameter::Throughput, None) if term.agreed == 0.0 => return None,
                (Parameter::Throughput, None) => format!("throughput {least} at least"),
                _ => format!("{} {least} at most", subject(parameter)),
            })
        })
        .collect();
    let how = match (answer, committed) {
        (Answered::Accept, true) => "accepts what is offered",
        (Answered::Counter, true) => "counters the offer, agreed",
        (_, false) => "goes by its own profile, of which the source does not know",
    };
    let terms = match terms.is_empty() {
        true => String::new(),
        false => format!("; {}", terms.join(", ")),
    };
    format!("{how}: up to level {level}{terms}")
}

#[cfg(test)]
mod tests {
    use layercast_core::Term;

    use super::*;

    #[test]
    fn what_deviates_is_told_in_the_units_of_a_user() {
        let judged = |agreed, measured, zone| {
            Some(Judged {
                agreed,
                measured,
                zone,
            })
        };
        let quality = Quality {
            zone: Zone::Red,
            throughput_bps: judged(2e6, 1.5e6, Zone::Red),
            delay_s: judged(0.173, 0.2014, Zone::Red),
            jitter_s: judged(0.04, 0.01, Zone::Green),
            error_rate: judged(1e-11, 0.0234, Zone::Yellow),
        };
        let told: Vec<String> = reasons(&quality).collect();
        assert_eq!(
            told,
            [
                "red: throughput 1.50 Mbit/s, at least 2.00 Mbit/s agreed",
                "red: delay in the network 201 ms, at most 173 ms agreed",
                "yellow: lost or late 2.3 %, at most 1e-9 % agreed",
            ]
        );
        assert_eq!(
            beside(&quality),
            "throughput 1.50 Mbit/s, at least 2.00 Mbit/s agreed; delay in the network 201 ms, at most 173 ms agreed; \
             jitter 10 ms, at most 40 ms agreed; lost or late 2.3 %, at most 1e-9 % agreed"
        );
    }

    #[test]
    fn an_agreement_is_told_with_what_each_end_takes() {
        let between = |worst, target| {
            Some(Term {
                worst: Some(worst),
                target: Some(target),
                ..Term::agreed(worst)
            })
        };
        let contract = Contract {
            throughput: between(150_000.0, 600_000.0),
            delay: between(0.154, 0.05),
            ..Contract::default()
        };
        let told = agreed(Answered::Counter, &contract, Level::E1, true);
        assert_eq!(
            told,
            "counters the offer, agreed: up to level BL+E1; throughput 150.0 kbit/s at least and 600.0 kbit/s at most, \
             delay in the network 154 ms at most"
        );
        let varies = Contract {
            throughput: Some(Term::agreed(0.0)),
            ..Contract::default()
        };
        let told = agreed(Answered::Accept, &varies, Level::FULL, false);
        assert!(
            told.ends_with("does not know: up to level BL+E1+E2"),
            "{told}"
        );
    }
}
