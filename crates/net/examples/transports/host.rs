//! XTP over UDP as many tasks use it: by `XtpHost`, whose calls go straight into the machine.

use std::net::{Ipv4Addr, SocketAddr};

use layercast_net::{XtpHost, XtpNode};
use layercast_wire::{Payload, XtpService};
use layercast_xtp::SendOptions;

use crate::load::{Load, Taken};
use crate::xtp::{PORT, WINDOW};
use crate::{Failed, ready};

pub async fn take(address: SocketAddr, taken: &mut Taken) -> Result<(), Failed> {
    let host = XtpHost::new(XtpNode::udp(address)?);
    let stream = host.register(XtpService::STREAM).bind(PORT);
    let stream = stream.configure(|config| config.window = WINDOW);
    let listener = stream.listen(1).await?;
    ready(host.local_addr());
    let it = listener.accept().await?;
    while let Some(chunk) = it.receive(usize::MAX).await? {
        taken.bytes(chunk.data.len());
        if let Payload::Bytes(bytes) = chunk.data
            && chunk.end_of_message
        {
            taken.messages(&bytes);
        }
    }
    taken.end();
    Ok(it.close().await?)
}

pub async fn send(address: SocketAddr, load: &mut Load) -> Result<(), Failed> {
    let host = XtpHost::new(XtpNode::udp((Ipv4Addr::UNSPECIFIED, 0).into())?);
    let stream = host.register(XtpService::STREAM);
    let stream = stream.configure(|config| (config.window, config.send_buffer) = (WINDOW, WINDOW));
    let it = stream.connect(address, PORT)?;
    it.connected().await?;
    load.start();
    let how = SendOptions {
        end_of_message: load.is_paced(),
        ..SendOptions::default()
    };
    while let Some(piece) = load.next().await {
        it.send(piece, &how).await?;
    }
    it.close_write()?;
    it.receive(1).await?;
    Ok(it.close().await?)
}
