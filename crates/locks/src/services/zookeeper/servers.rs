//! Where the servers are, and how sessions reach them. The library speaks TLS by a second provider of
//! cryptography only, so it speaks plainly to a port of this program, which passes everything on by TLS. A
//! connection to an unreachable server is closed at once, and the library tries the next server.

use crate::dialer::{Dialer, wrong_password};
use crate::error::ClientError;
use crate::protocol::{Hello, Server};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::TcpListener;
use tokio::time::timeout;
use zookeeper_client::{Client, Connector, Error, SaslOptions};

/// How long servers may take before a client says hello without them.
const FIRST_CONNECT: Duration = Duration::from_secs(2);

pub(super) struct ZkServers {
    list: String,
    login: Option<SaslOptions>,
}

impl ZkServers {
    /// Errors: the hello names no servers, or they never take the access of this client.
    pub(super) async fn of(hello: &Hello) -> Result<Arc<ZkServers>, ClientError> {
        let [first, ..] = hello.servers.as_slice() else {
            return Err(ClientError::BadHello(
                "ZooKeeper needs servers, and the hello names none".to_owned(),
            ));
        };
        let dialer = Dialer::checked(hello).await?;
        let mut addresses = Vec::new();
        for server in &hello.servers {
            addresses.push(match dialer.is_tls() {
                true => pass_on(server.clone(), dialer.clone()).await?,
                false => server.address.clone(),
            });
        }
        let access = &dialer.access;
        let login = access.user.clone().zip(access.password.as_ref());
        let login =
            login.map(|(user, password)| SaslOptions::digest_md5(user, password.reveal().to_owned()).into());
        let servers = ZkServers { list: addresses.join(","), login };
        if hello.access.is_some()
            && let Ok(Err(Error::AuthFailed)) =
                timeout(FIRST_CONNECT, servers.connect(Client::connector())).await
        {
            let why = wrong_password(first, access, "SASL DIGEST-MD5");
            return Err(ClientError::Environment(why.to_string()));
        }
        Ok(Arc::new(servers))
    }

    pub(super) async fn connect(&self, connector: Connector) -> Result<Client, Error> {
        let connector = match &self.login {
            Some(login) => connector.with_sasl(login.clone()),
            None => connector,
        };
        connector.connect(&self.list).await
    }

    #[cfg(test)]
    pub(super) fn at(address: String) -> Arc<ZkServers> {
        Arc::new(ZkServers { list: address, login: None })
    }
}

/// Passes on connections to a port of this program, whose address it gives, for as long as the program runs.
async fn pass_on(server: Server, dialer: Dialer) -> Result<String, ClientError> {
    let cannot = |error| ClientError::Environment(format!("this client cannot listen on 127.0.0.1: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let (server, dialer) = (Arc::new(server), Arc::new(dialer));
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let (server, dialer) = (server.clone(), dialer.clone());
            tokio::spawn(async move {
                let _ = near.set_nodelay(true);
                if let Ok(mut far) = dialer.dial(&server).await {
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                }
            });
        }
    });
    Ok(address.to_string())
}
