import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** What Java needs for TLS with files in PEM. */
final class Tls {
    private Tls() {}

    /** A context with the files of an access, for sockets of TLS; it holds certificates against the authority. */
    static SSLContext context(Fencepost.Access access) throws IOException, GeneralSecurityException {
        KeyStore trusted = null;
        if (access.ca != null) {
            trusted = emptyStore();
            for (Certificate authority : certificates(access.ca)) {
                trusted.setCertificateEntry("ca" + trusted.size(), authority);
            }
        }
        var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        KeyManager[] own = null;
        if (access.certificate != null) {
            var store = emptyStore();
            Certificate[] chain = certificates(access.certificate).toArray(new Certificate[0]);
            String text = Files.readString(Path.of(access.key)).replaceAll("-----[A-Z ]+-----|\\s", "");
            var encoded = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(text));
            var algorithm = chain[0].getPublicKey().getAlgorithm();
            store.setKeyEntry("own", KeyFactory.getInstance(algorithm).generatePrivate(encoded), new char[0], chain);
            var keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            keys.init(store, new char[0]);
            own = keys.getKeyManagers();
        }
        var context = SSLContext.getInstance("TLS");
        context.init(own, trust.getTrustManagers(), null);
        return context;
    }

    private static KeyStore emptyStore() throws IOException, GeneralSecurityException {
        var store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        return store;
    }

    private static Collection<? extends Certificate> certificates(String file) throws IOException, GeneralSecurityException {
        try (var in = Files.newInputStream(Path.of(file))) {
            return CertificateFactory.getInstance("X.509").generateCertificates(in);
        }
    }
}
