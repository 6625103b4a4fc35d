//! For tests: a server that is there, and does not answer.

use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

pub(super) const SESSION: Duration = Duration::from_secs(1);

/// A server that opens a session, answers the first ping, and is silent from then on.
pub(super) async fn silent_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut frame = [0; 256];
        let _ = stream.read(&mut frame).await.unwrap();
        let millis = u32::try_from(SESSION.as_millis()).unwrap();
        // Protocol version, time-out, session, password, whether it is only for reading.
        let opened =
            [&[0; 4][..], &millis.to_be_bytes(), &7_u64.to_be_bytes(), &16_u32.to_be_bytes(), &[0; 17]];
        stream.write_all(&[&37_u32.to_be_bytes()[..], &opened.concat()].concat()).await.unwrap();
        let _ = stream.read(&mut frame).await.unwrap();
        let pinged = [&16_u32.to_be_bytes()[..], &(-2_i32).to_be_bytes(), &[0; 12]];
        stream.write_all(&pinged.concat()).await.unwrap();
        std::future::pending::<()>().await;
    });
    address
}
