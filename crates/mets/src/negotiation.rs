//! What a member answers to the contract that a flow offers, and what is agreed (specs/user-to-user-qos.md 2.4).
//!
//! An offer is an interval for each parameter, from the worst value that the source guarantees to the best one; what is agreed lies
//! within it. The member knows the offer from the advertisement, so that its answer travels in the join and the agreement in the
//! answer to the join. The node to which the member is attached agrees in the name of the source.

use layercast_core::{
    CellRate, Contract, FlowSpec, Level, Mediation, Parameter, Refusal, Resource,
};
use layercast_wire::{Bounds, FlowInfo};

/// Values that differ by less are the same: numbers travel as decimals.
const EXACT: f64 = 1e-9;

/// What is offered of a parameter: the worst value, and the best one.
struct Interval {
    worst: f64,
    best: f64,
}

/// What a member and its node agree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Terms {
    /// What is not as offered.
    pub bounds: Bounds,
    /// The highest level that it allows.
    pub level: Level,
}

/// What a member that gets `own` of a flow and wants `wishes` answers; its host takes at most `limit`.
///
/// # Errors
/// Offer and wishes have no value of a parameter in common.
pub(crate) fn answer(
    node: &str,
    (flow, own): (&FlowInfo, &FlowSpec),
    wishes: &Contract,
    limit: Option<CellRate>,
) -> Result<Terms, Refusal> {
    let offered = flow.contract_of(own);
    let refusal = |resource: Resource, needed: f64, available: f64| {
        let scale = resource.parameter().map_or(1.0, Resource::scale);
        let units = |value: f64| (value * scale).round() as u64;
        Refusal {
            node: node.into(),
            resource,
            needed: units(needed),
            available: units(available),
            measured: None,
        }
    };
    let mut bounds = Bounds::default();
    for parameter in [Parameter::Delay, Parameter::Jitter, Parameter::ErrorRate] {
        let Some(wish) = wishes.term(parameter) else {
            continue;
        };
        let offer = interval(flow, &offered, parameter);
        if exceeds(offer.best, wish.agreed) {
            return Err(refusal(
                Resource::wanted(parameter),
                wish.agreed,
                offer.best,
            ));
        }
        let path = flow.path_delay_us as f64 / 1e6;
        if parameter == Parameter::Delay && exceeds(path, wish.agreed) {
            return Err(refusal(Resource::PathDelay, wish.agreed, path));
        }
        if exceeds(offer.worst, wish.agreed) {
            let target = wish.target.unwrap_or(wish.agreed);
            let best = target.max(offer.best).min(wish.agreed);
            bounds.set(parameter, Some([wish.agreed, best]));
        }
    }
    let of = wishes.throughput;
    let offer = interval(flow, &offered, Parameter::Throughput);
    let least = of.map_or(offer.worst, |it| it.agreed.max(offer.worst));
    let most = limit_of(flow, wishes, limit).map_or(offer.best, |it| it.min(offer.best));
    // What is refused depends on the side that allows no more.
    let too_little = |least: f64| match of.and_then(|it| it.target) {
        _ if !exceeds(offer.best, most) => refusal(Resource::WantedThroughput, least, most),
        Some(target) if !exceeds(target, most) => refusal(Resource::OfferedThroughput, least, most),
        _ => refusal(Resource::LineThroughput, least, most),
    };
    if exceeds(least, most) {
        return Err(too_little(least));
    }
    let Some(level) = fitting(own, most, whole(flow)) else {
        return Err(too_little(rate_of(own, Level::BASE)));
    };
    let carries = rate_of(own, level);
    if level < own.top_level() && exceeds(least, carries) {
        let above = rate_of(own, level.up());
        return Err(refusal(Resource::LevelThroughput, above, carries));
    }
    if exceeds(offer.best, most) || exceeds(least, offer.worst) {
        bounds.throughput = Some([least, most]);
    }
    Ok(Terms { bounds, level })
}

/// The most throughput that a member takes, in bit/s, whatever is offered: of the lines to it, its host and its profile.
pub(crate) fn limit_of(flow: &FlowInfo, wishes: &Contract, host: Option<CellRate>) -> Option<f64> {
    let line = flow.path_bps.map(|bps| bps as f64);
    let host = host.map(|cells| cells.rate().as_bps() as f64);
    let wish = wishes.throughput.and_then(|it| it.target);
    [line, host, wish].into_iter().flatten().reduce(f64::min)
}

/// What a node agrees with a member to which it advertises the flow like this, and whether the answer went beyond the offer.
pub(crate) fn agree(flow: &FlowInfo, answer: &Bounds) -> (Terms, bool) {
    let offered = flow.contract_of(&flow.spec);
    let mut bounds = Bounds::default();
    for parameter in Parameter::ALL {
        let Some([worst, target]) = answer.get(parameter) else {
            continue;
        };
        let offer = interval(flow, &offered, parameter);
        // Of a throughput more is better.
        let (low, high) = (offer.worst.min(offer.best), offer.worst.max(offer.best));
        let values = [worst.clamp(low, high), target.clamp(low, high)];
        bounds.set(parameter, Some(values));
    }
    let offer = interval(flow, &offered, Parameter::Throughput);
    let mut most = offer.best;
    if let Some([_, asked]) = bounds.throughput {
        most = asked;
    }
    if let Some(line) = flow.path_bps.map(|bps| bps as f64).filter(|it| *it < most) {
        let least = bounds.throughput.map_or(offer.worst, |it| it[0]);
        bounds.throughput = Some([least.min(line), line]);
        most = line;
    }
    let level = fitting(&flow.spec, most, whole(flow)).unwrap_or_default();
    let clipped = Parameter::ALL.into_iter().any(|it| {
        let pair = answer.get(it).zip(bounds.get(it));
        pair.is_some_and(|(a, b)| (0..2).any(|n| exceeds(a[n], b[n]) || exceeds(b[n], a[n])))
    });
    (Terms { bounds, level }, clipped)
}

/// The highest level that terms allow a member that gets `own` of a flow.
pub(crate) fn level_of(flow: &FlowInfo, own: &FlowSpec, bounds: &Bounds) -> Level {
    let offer = interval(flow, &flow.contract_of(own), Parameter::Throughput);
    let most = bounds.throughput.map_or(offer.best, |it| it[1]);
    fitting(own, most, whole(flow)).unwrap_or_default()
}

/// The highest level that the lines allow over which a flow is advertised; the base layer if they carry less.
pub(crate) fn level_of_line(flow: &FlowInfo) -> Level {
    let line = flow.path_bps.map_or(f64::MAX, |bps| bps as f64);
    fitting(&flow.spec, line, whole(flow)).unwrap_or_default()
}

/// Whether a contract that was agreed is no worse than the one that was asked for.
pub(crate) fn is_within(agreed: &Contract, asked: &Contract) -> bool {
    Parameter::ALL.into_iter().all(|parameter| {
        let (Some(asked), agreed) = (asked.term(parameter), agreed.term(parameter)) else {
            return true;
        };
        let Some(agreed) = agreed else { return false };
        match parameter {
            Parameter::Throughput => {
                let most = agreed.target.unwrap_or(f64::MAX);
                let allowed = asked.target.unwrap_or(f64::MAX);
                !exceeds(asked.agreed, agreed.agreed) && !exceeds(most, allowed)
            }
            _ => !exceeds(agreed.agreed, asked.agreed),
        }
    })
}

/// What an answer becomes while the member asks for no more than `level`, because of a zone; `None` if that is less than the member accepts.
pub(crate) fn lowered(
    (flow, own): (&FlowInfo, &FlowSpec),
    terms: &Terms,
    wishes: &Contract,
    level: Level,
) -> Option<Terms> {
    if level >= terms.level {
        return Some(*terms);
    }
    let offered = flow.contract_of(own);
    let offer = interval(flow, &offered, Parameter::Throughput);
    let least = wishes
        .throughput
        .map_or(offer.worst, |it| it.agreed.max(offer.worst));
    let most = rate_of(own, level).min(offer.best);
    (!exceeds(least, most)).then(|| {
        let mut bounds = terms.bounds;
        bounds.throughput = Some([least, most]);
        Terms { bounds, level }
    })
}

/// What is offered of a parameter. What a flow does not promise is open; a flow that is not negotiated may do better than it says.
fn interval(flow: &FlowInfo, offered: &Contract, parameter: Parameter) -> Interval {
    let term = offered.term(parameter);
    if parameter == Parameter::Throughput {
        let whole = rate_of(&flow.spec, flow.spec.top_level());
        let worst = term.map_or(0.0, |it| it.agreed);
        let best = term.and_then(|it| it.target).unwrap_or(whole).max(worst);
        return Interval { worst, best };
    }
    match (term, flow.mediation) {
        (None, _) => Interval {
            worst: f64::MAX,
            best: 0.0,
        },
        (Some(it), None) => Interval {
            worst: it.agreed,
            best: 0.0,
        },
        (Some(it), Some(Mediation::PerMember | Mediation::SingleRate)) => Interval {
            worst: it.agreed,
            best: it.target.unwrap_or(it.agreed).min(it.agreed),
        },
    }
}

/// The highest level that takes at most `most` bit/s, of a flow of which `whole` are offered; `None`: not even the base layer does.
fn fitting(spec: &FlowSpec, most: f64, whole: f64) -> Option<Level> {
    let top = spec.top_level();
    if !exceeds(whole, most) {
        return Some(top);
    }
    let levels = [Level::FULL, Level::E1, Level::BASE].into_iter();
    let mut levels = levels.filter(|&level| level <= top);
    levels.find(|&level| !exceeds(rate_of(spec, level), most))
}

/// The most throughput that a flow offers, in bit/s, whatever its members take: all its layers.
pub(crate) fn whole(flow: &FlowInfo) -> f64 {
    let term = flow.contract.and_then(|it| it.throughput);
    let all = || rate_of(&flow.spec, flow.spec.top_level());
    let most = term.and_then(|it| it.target).unwrap_or_else(all);
    most.max(term.map_or(0.0, |it| it.agreed))
}

/// The highest level that the one rate of a group allows, if its members have one that is less than is offered.
pub fn group_level(flow: &FlowInfo) -> Option<Level> {
    let most = flow.group_bps? as f64;
    Some(fitting(&flow.spec, most, whole(flow)).unwrap_or_default())
}

/// What a level takes as measured, in bit/s with all headers.
pub(crate) fn rate_of(spec: &FlowSpec, level: Level) -> f64 {
    let above = spec.measured_above_base(level);
    let cells = spec.layers.base.mean.saturating_add(above);
    cells.rate().as_bps() as f64
}

/// Whether a value is above another one by more than the last digits of a decimal.
fn exceeds(value: f64, other: f64) -> bool {
    value - other > EXACT * value.abs().max(other.abs())
}

#[cfg(test)]
mod tests;
