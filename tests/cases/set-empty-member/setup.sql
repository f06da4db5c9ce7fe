SET NAMES utf8mb4; SET sql_mode='';
CREATE TABLE l08s (id INT PRIMARY KEY, s SET('', 'a', 'b'), t SET('x', '') NOT NULL, e ENUM('', 'a'));
INSERT INTO l08s VALUES (1, 0, 0, 1), (2, 1, 2, 2), (3, 2, 1, NULL), (4, 3, 3, 1), (5, 7, 0, 2), (6, NULL, 2, 1);
CREATE TABLE l08w (id INT PRIMARY KEY, s SET('','m1','m2','m3','m4','m5','m6','m7','m8','m9','m10','m11','m12','m13','m14','m15','m16','m17','m18','m19','m20','m21','m22','m23','m24','m25','m26','m27','m28','m29','m30','m31','m32','m33','m34','m35','m36','m37','m38','m39','m40','m41','m42','m43','m44','m45','m46','m47','m48','m49','m50','m51','m52','m53','m54','m55','m56','m57','m58','m59','m60','m61','m62','m63'));
INSERT INTO l08w VALUES (1, 18446744073709551615), (2, 9223372036854775809), (3, 9007199254740993), (4, 1);
CREATE TABLE l08d (id INT PRIMARY KEY, e ENUM('a','b','a','B') CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, f ENUM('e','é') CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL, s SET('e','é','E') CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci);
INSERT INTO l08d VALUES (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 1, 3), (4, 4, 2, 4), (5, NULL, 2, 7);
