// A throw-away key for tests of signatures, and a signature made with `openssl dgst -sha256 -sign`.
#pragma once

namespace headrace::testing {

inline constexpr const char* kRsaTestKey =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIICeAIBADANBgkqhkiG9w0BAQEFAASCAmIwggJeAgEAAoGBANWhGeIsgQDT7N4T\n"
    "vFrrdMMSFQ5hJ2Hah2DB/Tjega88FEsqhcQuWhL8/Dh9vpuGWBE03+1+NU9cmuby\n"
    "TzNr9yDnxy5B/KgNpfKthZMQkpd9TIoaxMd7IbXcnQ8erucNYcWUsbtJrmPNDE8F\n"
    "XSDgVxaORlmZdX2A3WPHIbYaipTxAgMBAAECgYA+Fkc2g6aufek+lc/NQNc7hnrW\n"
    "JghTGTb1OQwGRiy8qCJhwicEYFBPanVHWcxW2RGpVouqM179BLYEXvIDyOIWhxhE\n"
    "EgNrmixEMg7PJFUNWithWTDGJV1ObNvQ9BufxOkOdgZJ4lXkJggd1RFgskYFGlwi\n"
    "K2PM4RhF3EuCQwV4rQJBAPPxAYNavc7xXGZi1HITNE6XBJClOmh14bD7cH6wX1C0\n"
    "K+G+oyC0XneoKhxY+5s6hhsP9imESg/NBPdj909j3ssCQQDgMIF4K849lAQRhZHH\n"
    "qb4TwEs9nl7Zcv30XGrXCdy2toGjuZV/R9yApwMeVOKtYuSb5LsMZxjKafcETUE5\n"
    "0sezAkEAsJDlE3p+oGc7BjDKrLcRyUCt4TR3Dl0kusGEL27hzrxads9Rq75iEiH6\n"
    "OQJ/O2Ak6TmoZ2yFXuJ6kcYdn60d+QJBANzMqRbT/gID36XqKVO+R+hoATKk4cHE\n"
    "UX3z733uxqRlR3Ua+LQs8Gz9EEM1UzN1LLalJdvnRjFE//YKqGzsvaUCQQCebv17\n"
    "BLcQUpizuInLP5kMf4o8ie9KvPk+z8Ah3m0VZVwfI053rKXZjdT7Cf2HJye+l07z\n"
    "NzHGAVDzkc9HdA6S\n"
    "-----END PRIVATE KEY-----\n";
inline constexpr const char* kRsaTestText = "a.b";
inline constexpr const char* kRsaTestSignature =
    "1d19ba33a573f8abc2305de14159edf0079300f6ba198132e51642807041556b"
    "7a5b2e0c251c87b51941496dfdc1924013f4e9b1262d3554c46f7738849e88fb"
    "c2a5e78a1344f417665faba2a81bd0efaba288264854d2dc7364d1f13d05c6b7"
    "bfde88f5e3056cccd423bf85782c845ba7764d5991a86f66e91875fc7a45258f";

}  // namespace headrace::testing
