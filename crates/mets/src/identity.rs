use layercast_protect::SourceKey;
use layercast_wire::FlowInfo;

/// What a source signs when it signs a flow.
pub(super) const FLOW_DOMAIN: &str = "layercast flow 1";

/// The key of the source of a sealed flow, if the flow is signed by it.
pub(super) fn source_of(info: &FlowInfo) -> Option<SourceKey> {
    let identity = info.identity.as_ref()?;
    let key = SourceKey(identity.key.0[..].try_into().ok()?);
    key.verifies(FLOW_DOMAIN, &info.signed_part(), &identity.signature.0)
        .then_some(key)
}
