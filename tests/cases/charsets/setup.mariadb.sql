CREATE TABLE collations (a VARCHAR(10) COLLATE utf8mb4_uca1400_ai_ci UNIQUE, b VARCHAR(10) COLLATE utf8mb4_nopad_bin UNIQUE);
INSERT INTO collations VALUES ('a', 'b'), ('b', 'b '), (NULL, NULL);
